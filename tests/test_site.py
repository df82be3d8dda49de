"""The site of `./run docs` is gathered from the tree: links, what lies outside of docs/, and pages made by tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tools import make_schemas, make_site

pytestmark = pytest.mark.slow  # `./run check` runs it

PAGES = sorted((ROOT / "docs").rglob("*.md"))


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


def test_every_page_is_in_one_of_the_four_parts_and_in_the_table_of_contents() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    there = [make_site.place(str(path.relative_to(ROOT))) for path in PAGES]
    there += [place for place in make_site.TOP.values() if place.endswith(".md")]
    assert sorted(listed) == sorted(there)
    assert {place.split("/")[0] for place in there} == {"index.md", "start", "do", "reference", "why"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_code_stands_between_fences_that_name_its_language(page: Path) -> None:
    """So that tests find it, and a reader's eye its colours."""
    text = page.read_text()
    fences = re.findall(r"^ *```(.*)$", text, re.M)
    assert [name for name in fences[::2] if not name] == []
    outside = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S)
    assert (
        re.findall(r"\n(?:#.*)?\n {4}\S.*", re.sub(r"^ *(?:\d+\.|\*) .*?(?=^\S)", "", outside, flags=re.M | re.S)) == []
    )
