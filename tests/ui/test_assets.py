"""The page's files: what a browser is given, and what it is told to keep out."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from mesos_gpu.ui.assets import LATER, POLICY, answer, assets
from tests.support.ui.vendor import PACKAGES, RECORD, VENDOR, browsable, digest

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


HERE = Path(__file__).parent
CORE = HERE.parents[1] / "mesos_gpu" / "ui" / "static" / "core"


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted((HERE / "modules").glob("*.test.mjs")), ids=lambda path: path.name)
def test_deciding_modules_do_what_their_tests_say(module: Path) -> None:
    node = shutil.which("node")
    assert node is not None, "./run test installs node"
    done = subprocess.run([node, "--test", module], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^\W*pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= 15


def test_what_decides_does_not_act() -> None:
    for path in CORE.glob("*.js"):
        text = path.read_text()
        assert set(re.findall(r'from "([^"]+)"', text)) <= {f"./{other.name}" for other in CORE.glob("*.js")}, path
        code = re.sub(r"/\*\*.*?\*/", "", text, flags=re.DOTALL)
        assert re.findall(r"\b(?:fetch|setTimeout|setInterval|Date\.now|Math\.random)\(|new Date\(\)", code) == [], path
        assert re.findall(r"\b(?:window|location|navigator)\.", code) == [], path
        assert re.findall(r"\bdocument\.(?:get|query|create|body)", code) == [], path


FOUND = json.loads(RECORD.read_text())


def test_what_is_there_is_what_was_fetched() -> None:
    recorded = {name: known for package in FOUND for name, known in package["files"].items()}
    there = {path.name: digest(path.read_bytes()) for path in VENDOR.iterdir() if path.suffix != ".ts"}
    assert there == {**recorded, "vendor.json": digest(RECORD.read_bytes())}


def test_versions_and_licences_are_those_that_were_asked_for() -> None:
    assert [(one["name"], one["version"], one["licence"]) for one in FOUND] == [
        (one.name, one.version, one.licence) for one in PACKAGES
    ]
    for package in FOUND:
        licence = next(name for name in package["files"] if name.startswith("LICENSE."))
        words = {"MIT": "Permission is hereby granted", "Apache-2.0": "Apache License"}[package["licence"]]
        assert words in (VENDOR / licence).read_text()
        assert package["tarball"].startswith("sha512-")


def test_bare_names_become_paths_and_unknown_ones_are_refused() -> None:
    assert browsable('import{h}from"preact";export*from"@preact/signals-core";\n//# sourceMappingURL=x.map') == (
        'import{h}from"./preact.js";export*from"./signals-core.js";\n'
    )
    with pytest.raises(KeyError):
        browsable('import "left-pad"')
