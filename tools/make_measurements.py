"""Writes docs/why/measurements.md from benchmarks/page and benchmarks/results: python -m tools.make_measurements"""

from __future__ import annotations

from pathlib import Path

from benchmarks.kept.page import page
from benchmarks.kept.results import recorded

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "benchmarks" / "page"
PAGE = ROOT / "docs" / "why" / "measurements.md"


def measurements_page() -> str:
    """Return the page."""
    return page([part.read_text() for part in sorted(PARTS.glob("*.md"))], recorded())


def main() -> None:
    """Write it."""
    PAGE.write_text(measurements_page())


if __name__ == "__main__":
    main()
