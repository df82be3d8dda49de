"""The site of `./run docs` is gathered from the tree: links, what lies outside of docs/, and pages made by tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import blocks
from tests.support.places import ROOT
from tools import make_api, make_schemas, make_site


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


def test_the_page_of_the_api_is_what_its_routes_say() -> None:
    assert make_api.PAGE.read_text() == make_api.api_page(), "out of date; run .venv/bin/python -m tools.make_api"


CHINESE = {
    path.with_name(path.name.replace(".zh-CN", "")): path
    for path in ROOT.glob("**/*.zh-CN.md")
    if ".venv" not in path.parts
}


@pytest.mark.parametrize("page", sorted(CHINESE), ids=lambda path: path.name)
def test_a_chinese_page_is_kept_in_step_with_the_english_one(page: Path) -> None:
    """It has as many headings of each level, the same code and commands, rows in tables, and what is linked."""
    english, chinese = (path.read_text(encoding="utf-8") for path in (page, CHINESE[page]))
    for what in (r"^(#+) ", r"^\| ?(?:`[^`]*`)?", r"^(?:\*|\d+\.) "):
        assert len(re.findall(what, english, re.M)) == len(re.findall(what, chinese, re.M)), what
    code = [[one.text for one in blocks(ROOT, path) if one.language != "console"] for path in (page, CHINESE[page])]
    assert code[0] == code[1]
    ours = {re.sub(r"\.zh-CN|ui-[a-z-]+\.png", "", link) for link in make_site.links("x/y.md", chinese)}
    theirs = {re.sub(r"\.zh-CN|ui-[a-z-]+\.png", "", link) for link in make_site.links("x/y.md", english)}
    assert ours == theirs
    if page.name != "first-five-minutes.md":
        words = [set(re.findall(r"`((?:\./run|mesos-gpu|apt|pip|/)[^`]*)`", text)) for text in (english, chinese)]
        assert words[0] == words[1]


def test_readme_and_start_are_there_in_chinese() -> None:
    assert set(CHINESE) == {
        ROOT / "README.md",
        *(path for path in (ROOT / "docs/start").glob("*.md") if "zh-CN" not in path.name),
    }
