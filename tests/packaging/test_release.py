"""A release: in a clone of its own, from a clean tree to a tag and what is published."""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import places
from tools.release import Refused, main, released, with_version

DAY = datetime.date(2026, 11, 22)


def test_the_unreleased_section_becomes_the_versions_and_an_empty_one_stays() -> None:
    text = "# Changes\n\n## [Unreleased]\n### The box\n* new\n\n## [0.1.0] - 2026-01-02\n* old\n"
    assert released(text, "0.3.0", DAY) == text.replace("Unreleased]\n", "Unreleased]\n\n## [0.3.0] - 2026-11-22\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# Changes\n", "one section"),
        ("## [Unreleased]\n* a\n\n## [Unreleased]\n* b\n", "but has 2"),
        ("## [Unreleased]\n\n## [0.0.9] - 2026-01-02\n* old\n", "nothing to release"),
        ("## [Unreleased]\n* new\n\n## [0.1.0] - 2026-01-02\n* old\n", "already"),
    ],
)
def test_a_changelog_without_news_or_with_that_version_is_refused(text: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        released(text, "0.1.0", DAY)


def test_this_changelog_can_be_released() -> None:
    found = released((places.ROOT / "CHANGELOG.md").read_text(), "9.8.7", DAY)
    heads = [line for line in found.splitlines() if line.startswith("## ")]
    assert heads[:2] == ["## [Unreleased]", "## [9.8.7] - 2026-11-22"]
    assert heads[-1] == "## [0.1.0] - 2026-11-21"


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3rc1"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(Refused, match="three numbers"):
        main(version)


def test_the_version_stands_in_one_place() -> None:
    assert with_version('"""Doc."""\n\n__version__ = "0.1.0"\n', "1.0.0") == '"""Doc."""\n\n__version__ = "1.0.0"\n'


@pytest.mark.timeout(400)
def test_a_release_is_tagged_and_its_files_have_hashes_and_a_bill_of_materials(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", places.ROOT, clone], check=True)
    for name, value in (("user.name", "Somebody"), ("user.email", "somebody@localhost")):
        subprocess.run(["git", "-C", clone, "config", name, value], check=True)
    release = [sys.executable, "-m", "tools.release", "9.8.7"]
    done = subprocess.run(release, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        ["git", "-C", clone, "show", "v9.8.7:CHANGELOG.md"], capture_output=True, text=True, check=True
    )
    assert "\n## [9.8.7] - 2" in shown.stdout
    dist = clone / "dist"
    sums = dict(reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert "mesos_gpu-9.8.7-py3-none-any.whl" in sums
    assert all(hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())
    bill = json.loads((dist / "mesos-gpu-9.8.7.cdx.json").read_text())
    assert {"mesos-gpu", "pymesos", "http-parser"} <= {part["name"] for part in bill["components"]}
    again = subprocess.run(release, cwd=clone, capture_output=True, text=True)
    assert again.returncode == 1
    assert "v9.8.7 is there already" in again.stderr
