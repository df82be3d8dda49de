"""Where the things lie that tests read: a test that moves finds them still."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"
RECORDED = TESTS / "recorded"
