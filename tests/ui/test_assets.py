"""The page's files: what a browser is given, and what it is told to keep out."""

from __future__ import annotations

import re

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from mesos_gpu.ui.assets import LATER, POLICY, answer, assets

MOST_BYTES = 150_000
MOST_LATER = 100_000


def test_the_whole_page_is_small() -> None:
    assert sum(len(asset.packed) for path, asset in assets().items() if path not in LATER) < MOST_BYTES


def test_what_is_loaded_when_it_is_wanted_is_there_and_small_too() -> None:
    assert assets().keys() >= LATER
    assert sum(len(assets()[path].packed) for path in LATER) < MOST_LATER
    page = assets()["index.html"].plain.decode()
    assert [path for path in LATER if path in page] == []


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    page = assets()["index.html"].plain.decode()
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page) == []
    for path, asset in assets().items():
        if "vendor/" not in path:
            text = asset.plain.decode().replace("http://www.w3.org/2000/svg", "")
            assert re.findall(r"""["'(]https?://""", text) == [], path
            if path == "edge/api.js":
                # Half of a session, which is nothing without the cookie that no script can read.
                assert set(re.findall(r"localStorage\.\w+\((\w+)", text)) == {"KEPT_KEY"}
                text = text.replace("localStorage", "")
            assert re.findall(r"\beval\(|new Function|innerHTML|dangerouslySet|localStorage|sessionStorage", text) == []
    assert "unsafe" not in POLICY
    assert "frame-ancestors 'none'" in POLICY


def test_every_module_that_is_imported_is_there_and_is_loaded_at_once() -> None:
    page = assets()["index.html"].plain.decode()
    for path, asset in assets().items():
        if path.endswith(".js"):
            assert (f'rel="modulepreload" href="{path}"' in page) is (path not in LATER)
            for name in re.findall(r"""^import[^"']*["']([^"']+)["'];$""", asset.plain.decode(), re.MULTILINE):
                folder = path.rpartition("/")[0].split("/") if "/" in path else []
                steps = [*folder, *name.split("/")]
                while ".." in steps:
                    at = steps.index("..")
                    steps[at - 1 : at + 1] = []
                assert "/".join(step for step in steps if step != ".") in assets(), (path, name)


def test_a_browser_that_has_a_file_is_not_sent_it_again() -> None:
    etag = assets()["app.js"].etag
    again = answer(make_mocked_request("GET", "/ui/app.js", headers={"If-None-Match": etag}), "app.js")
    assert (again.status, again.body) == (304, None)


def test_files_are_compressed_for_those_who_can_read_that() -> None:
    packed = answer(make_mocked_request("GET", "/ui/app.js", headers={"Accept-Encoding": "gzip, br"}), "app.js")
    plain = answer(make_mocked_request("GET", "/ui/app.js"), "app.js")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.body == assets()["app.js"].plain
    assert plain.headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize("path", ["../assets.py", "vendor/vendor.json", "nothing.js", "app.js/"])
def test_other_files_are_not_there(path: str) -> None:
    with pytest.raises(web.HTTPNotFound):
        answer(make_mocked_request("GET", f"/ui/{path}"), path)
