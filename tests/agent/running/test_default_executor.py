"""By which Python the program that runs task groups is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mesos_gpu.agent.running.default_executor import PROGRAM, default_executor
from tests.support.folders import open_folder


def test_it_is_our_own_unless_containers_users_cannot_get_to_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As for a Python below root's home; folders of pytest are closed alike."""
    closed = tmp_path / "python3"
    closed.touch()
    with open_folder() as place:
        link = place / "python3"
        link.symlink_to(closed)
        (open_to_all := place / "python").touch()
        asked = [str(closed), None, str(link), str(open_to_all)]
        assert default_executor(remapped=False, pythons=asked) == (sys.executable, "-S", str(PROGRAM))
        assert default_executor(remapped=True, pythons=asked) == (str(open_to_all), "-S", str(PROGRAM))
        assert not caplog.text
        assert default_executor(remapped=True, pythons=asked[:3]) == (sys.executable, "-S", str(PROGRAM))
    (warning,) = caplog.messages
    assert str(closed) in warning
    assert PROGRAM.is_file()
