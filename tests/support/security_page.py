"""The page of walls, docs/why/security.md: its rows, and the commands that repeat what was tried."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "why" / "security.md"
COMMAND = re.compile(r"(tests/[\w/]+\.py)(?: -k (?:\"([^\"]+)\"|([\w-]+)))?")
ROWS = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "`tests/" in line]
