"""The first five minutes, as docs/start/first-five-minutes.md shows them, still end as they did."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.box.live import LiveBox
from tools.make_recording import CHINESE_PAGE, PAGE, ROOT, STEPS, environment, shell_setup


@pytest.mark.root
def test_every_command_of_the_recording_ends_as_it_did(new_box: LiveBox) -> None:
    for step in STEPS:
        script = f"{shell_setup()}\n{step.command}"
        env = environment(new_box.work_dir)
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)
        assert done.returncode == step.status, (step.command, done.stdout, done.stderr)
        assert done.stdout + done.stderr


@pytest.mark.parametrize("page", [PAGE, CHINESE_PAGE], ids=lambda path: path.name)
def test_the_pages_show_the_commands_that_are_tested(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)```", text, re.M | re.S)
    assert [block.partition("\n")[0] for block in blocks] == [f"$ {step.command}" for step in STEPS]
    assert [step for step in STEPS if (step.text if page == PAGE else step.chinese) not in text] == []
