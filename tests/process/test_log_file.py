"""A program's log is kept small where it is a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mesos_gpu.process.log_file import KEPT, begin_new_file

TALK = """
import logging, sys
from mesos_gpu.process.log_file import LogFile
logging.basicConfig(handlers=[LogFile(int(sys.argv[1]))], format="%(message)s", level=logging.INFO)
for number in range(int(sys.argv[2])):
    logging.info("line %05d", number)
print("the end")
"""
LINES = 500


def talk(log: Path, max_bytes: int, lines: int = LINES) -> None:
    with log.open("ab") as output:
        command = [sys.executable, "-c", TALK, str(max_bytes), str(lines)]
        subprocess.run(command, stdout=output, stderr=output, check=True)


def test_a_full_log_is_begun_anew_and_four_older_ones_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    talk(log, 1100)
    files = [tmp_path / f"agent.log.{number}" for number in range(KEPT, 0, -1)]
    assert sorted(tmp_path.iterdir()) == sorted([log, *files])
    text = b"".join(path.read_bytes() for path in [*files, log]).decode().splitlines()
    first = LINES - (len(text) - 1)
    assert text == [*(f"line {number:05}" for number in range(first, LINES)), "the end"]  # nothing is lost in between
    assert all(path.stat().st_size <= 1100 + 11 for path in files)


def test_without_a_limit_or_in_a_pipe_nothing_is_begun_anew(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    talk(log, 0)
    assert (list(tmp_path.iterdir()), len(log.read_text().splitlines())) == ([log], LINES + 1)
    command = [sys.executable, "-c", TALK, "100", "50"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert len(done.stderr.splitlines()) == 50


def test_a_log_keeps_its_mode(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    log.touch(0o600)
    talk(log, 1100)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_file_that_somebody_has_renamed_is_left_alone(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    (tmp_path / "log").rename(tmp_path / "log.old")
    assert begin_new_file(log, tmp_path / "log") is False
    (tmp_path / "log").touch()
    assert begin_new_file(log, tmp_path / "log") is False
    os.close(log)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.old"]


def test_a_log_that_cannot_be_begun_anew_goes_on(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    (tmp_path / ".log.new").mkdir()  # as a full disk, or a folder that is not ours
    with pytest.raises(OSError):
        begin_new_file(log, tmp_path / "log")
    assert os.write(log, b"more") == 4
    os.close(log)
    assert (tmp_path / "log").read_bytes() == b"more"


def test_of_a_program_that_cannot_begin_a_new_log_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / ".agent.log.new").mkdir()
    log = tmp_path / "agent.log"
    talk(log, 1100)
    assert len(log.read_text().splitlines()) == LINES + 1
