"""Signals that are held back, and those that end a program by an exception."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from mesos_gpu.local.forking.signals import held_back, leaving


def test_what_is_held_back_is_heard_at_the_end_once() -> None:
    done = []

    def begin() -> None:
        with held_back():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
            done.append("all of it")
        done.append("not this")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # that of a test before may be another's
    try:
        with pytest.raises(KeyboardInterrupt):
            begin()
        assert done == ["all of it"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_leaves_does_so_by_an_exception(number: signal.Signals) -> None:
    with pytest.raises(SystemExit) as left, leaving(), held_back():
        signal.raise_signal(number)
    assert left.value.code == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_is_ignored_stays_so_as_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with leaving(), held_back():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_program_that_is_begun_meanwhile_hears_them() -> None:
    """As it would not if they were blocked: that is inherited."""
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGHUP))"
    with held_back():
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["set()", "Handlers.SIG_DFL"] or said.split() == ["set()", "0"], said
