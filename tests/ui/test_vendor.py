"""Foreign modules of the page are what their records say, and nothing else lies beside them."""

from __future__ import annotations

import json

import pytest

from tests.support.ui.vendor import PACKAGES, RECORD, VENDOR, browsable, digest

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
