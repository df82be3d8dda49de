"""The site of `./run docs` is gathered from the tree: links, what lies outside of docs/, and pages made by tools."""

from __future__ import annotations

import pytest

from tools import make_schemas, make_site

pytestmark = pytest.mark.slow  # `./run check` runs it


def test_links_of_a_page_lead_to_where_things_are_in_the_site() -> None:
    text = "[five](docs/start/install.md#a) ![page](docs/pictures/ui.png) [all](LICENSE) [x](https://x.y) [h](#h)"
    assert make_site.page("README.md", text, frozenset()) == (
        "[five](start/install.md#a) ![page](pictures/ui.png) [all](files/LICENSE.txt) [x](https://x.y) [h](#h)"
    )
    text = "[`one`](../../examples/demo.py), [those](../../examples/device-plugins), [why](../../ARCHITECTURE.md)"
    assert make_site.page("docs/do/run.md", text, frozenset({"examples/device-plugins"})) == (
        "[`one`](../files/examples/demo.py), those, [why](../why/architecture.md)"
    )


def test_the_page_of_definitions_is_what_the_schemas_say() -> None:
    advice = "out of date; run .venv/bin/python -m tools.make_schemas"
    assert make_schemas.PAGE.read_text() == make_schemas.schemas_page(), advice
