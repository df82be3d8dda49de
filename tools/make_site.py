"""Builds the site of the documentation: `./run docs`, or .venv/bin/python -m tools.make_site [FOLDER]

Pages are docs/ and those that lie at the top of the tree (README.md is the first). What they link to outside of docs/,
such as an example, goes into the site beside them. mkdocs-material does the rest, by mkdocs.yml, and a warning fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
TOP = {
    "README.md": "index.md",
    "README.zh-CN.md": "start/index.zh-CN.md",
    "ARCHITECTURE.md": "why/architecture.md",
    "SECURITY.md": "why/security-policy.md",
    "CONTRIBUTING.md": "why/contributing.md",
    "CHANGELOG.md": "why/changes.md",
    "LICENSE": "files/LICENSE.txt",
    "NOTICE": "files/NOTICE.txt",
}
"""What lies at the top of the tree, and where it is in the site."""
LINK = re.compile(r"(!?\[(?:[^][]|\[[^][]*\])*\])\((?!https?:|mailto:|#)([^()\s#]+)(#[^()\s]*)?\)")
COMMENT = re.compile(r"^ *<!-- docs-test:.*?-->\n", re.M)
"""What only tests/docs reads."""


def place(path: str) -> str:
    """Return where a file of the tree, by its path from the top, is in the site."""
    if path in TOP:
        return TOP[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"


def links(path: str, text: str) -> list[str]:
    """Return the paths from the top of the tree that a page, by its own, links to."""
    return [_target(path, found[2]) for found in LINK.finditer(text)]


def page(path: str, text: str, folders: frozenset[str]) -> str:
    """Return a page as the site has it: links lead to where files are there, and those to `folders` are words."""
    here = PurePosixPath(place(path)).parent

    def moved(found: re.Match[str]) -> str:
        words, target, fragment = found[1], _target(path, found[2]), found[3] or ""
        if target in folders:
            return words[1:-1]
        return f"{words}({os.path.relpath(place(target), here)}{fragment})"

    return COMMENT.sub("", LINK.sub(moved, text))


def _target(path: str, link: str) -> str:
    return os.path.normpath(PurePosixPath(path).parent / link)


def gather(into: Path) -> None:
    """Write what mkdocs takes into a folder."""
    pages = [*(name for name in TOP if name.endswith(".md"))]
    pages += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in pages}
    linked = {target for path, text in texts.items() for target in links(path, text)}
    folders = frozenset(target for target in linked if (ROOT / target).is_dir())
    for path in sorted(linked - folders - texts.keys()):
        if not (ROOT / path).is_file():
            raise SystemExit(f"a page links to {path}, which is not there")
        _write(into / place(path), (ROOT / path).read_bytes())
    for path, text in texts.items():
        _write(into / place(path), page(path, text, folders).encode())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main(words: list[str]) -> int:
    """Build the site into a folder, `site` if none is said; return mkdocs' status."""
    target = Path(words[0] if words else ROOT / "site").resolve()
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-site-") as name:
        gather(Path(name))
        # Material advertises its successor on standard error unless this is set.
        env = {**os.environ, "SITE_SOURCE": name, "SITE_TARGET": str(target), "NO_MKDOCS_2_WARNING": "1"}
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", "mkdocs.yml"]
        done = subprocess.run(command, cwd=ROOT, env=env, check=False)
    if done.returncode == 0:
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        print(f"{target}/index.html: {len([*target.rglob('*.html')])} pages, {size / 1e6:.1f} MB")
    else:
        shutil.rmtree(target, ignore_errors=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
