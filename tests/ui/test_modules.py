"""The page's deciding modules, run by node's own test runner."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

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
