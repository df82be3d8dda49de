"""The first five minutes, as docs/start/first-five-minutes.md shows them, still end as they did."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.box.live import LiveBox
from tools.make_recording import PAGE, ROOT, STEPS, environment, shell_setup


@pytest.mark.root
def test_every_command_of_the_recording_ends_as_it_did(new_box: LiveBox) -> None:
    for step in STEPS:
        script = f"{shell_setup()}\n{step.command}"
        env = environment(new_box.work_dir)
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)
        assert done.returncode == step.status, (step.command, done.stdout, done.stderr)
        assert done.stdout + done.stderr


def test_the_page_shows_the_commands_that_are_tested() -> None:
    text = PAGE.read_text()
    shown = [block.partition("\n")[0] for block in re.findall(r"^```console\n(.*?)```", text, re.M | re.S)]
    assert shown == [f"$ {step.command}" for step in STEPS]
    assert [step.text for step in STEPS if step.text not in text] == []
