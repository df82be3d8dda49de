"""Makes a release: ./run release X.Y.Z

In order: is the tree clean, the version in mesos_gpu/__init__.py, the changelog's section with its date, dist/ with
wheels, sdist, Debian package and a bill of materials (CycloneDX), a commit and a tag, SHA256SUMS. What fails before
the commit leaves the tree as it was. Nothing is sent anywhere.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools import make_deb, make_wheels

ROOT = Path(__file__).resolve().parents[1]
VERSION = ROOT / "mesos_gpu" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Refused(Exception):
    """A release cannot be made now; says why, and what to do."""


def with_version(text: str, version: str) -> str:
    """Return mesos_gpu/__init__.py with this version."""
    return re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', text, flags=re.MULTILINE)


def released(changelog: str, version: str, day: datetime.date) -> str:
    """Return the changelog with what is unreleased as this version's, and an empty section for what comes next.

    The form is that of Keep a Changelog 1.1.0. Raises Refused.
    """
    found = _UNRELEASED.findall(changelog)
    if len(found) != 1:
        raise Refused(f"CHANGELOG.md must have one section `## [Unreleased]`, but has {len(found)}")
    if not found[0].strip():
        raise Refused("CHANGELOG.md has nothing in its section `## [Unreleased]`: there is nothing to release")
    if f"\n## [{version}]" in changelog:
        raise Refused(f"CHANGELOG.md has a section of {version} already; choose a higher version")
    return changelog.replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{version}] - {day.isoformat()}\n")


def main(version: str) -> None:
    """Make it. Raises Refused."""
    if not _VERSION.fullmatch(version):
        raise Refused(f"'{version}' is no version: write three numbers, such as 0.2.0")
    if _git("status", "--porcelain"):
        raise Refused("the tree has changes that are not committed; commit or drop them first")
    tag = f"v{version}"
    if _git("tag", "--list", tag):
        raise Refused(f"the tag {tag} is there already; choose a higher version")
    changelog = released(CHANGELOG.read_text(), version, datetime.datetime.now(datetime.timezone.utc).date())
    VERSION.write_text(with_version(VERSION.read_text(), version))
    CHANGELOG.write_text(changelog)
    dist = ROOT / "dist"
    try:
        make_wheels.main(dist)
        if shutil.which("dpkg-deb"):
            make_deb.main(dist)
        _bill_of_materials(dist / f"mesos-gpu-{version}.cdx.json")
    except BaseException:
        _git("checkout", "--", str(VERSION), str(CHANGELOG))
        raise
    _git("commit", "-q", "-m", f"Release {version}", str(VERSION), str(CHANGELOG))
    _git("tag", "-a", tag, "-m", f"mesos-gpu {version}")
    files = sorted(path for path in dist.iterdir() if path.name != "SHA256SUMS")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (dist / "SHA256SUMS").write_text(sums)
    print(f"{sums}\n{tag} is made here; to publish it: git push --follow-tags, and upload what lies in dist/")


def _bill_of_materials(path: Path) -> None:
    """Write what the wheel brings along when it is installed alone, as CycloneDX JSON."""
    home = path.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "-q", "--no-compile"]
    pip += ["--disable-pip-version-check", "--find-links", str(path.parent), "mesos-gpu"]
    try:
        subprocess.run(pip, check=True)
        sbom = [sys.executable, "-m", "cyclonedx_py", "environment", "-o", str(path), str(home / "bin" / "python")]
        subprocess.run(sbom, check=True)
    finally:
        shutil.rmtree(home)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) == 2 else "")
    except Refused as error:
        sys.exit(f"run release: {error}")
