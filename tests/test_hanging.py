"""A run of tests ends although a test blocks its process or kills its worker; each case is a project of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HANGING_GRACE_S", "1")
    quiet = " ".join(f"-p no:{name}" for name in ("cacheprovider", "hypothesispytest", "asyncio", "schemathesis"))
    pytester.makeini(f"[pytest]\naddopts = {quiet} -p tests.support.hanging\ntimeout = 1\n")
    return pytester


def test_a_process_that_blocks_signals_ends_and_prints_its_stacks(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import signal

        def test_deaf():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            wait_for_ever()

        def wait_for_ever():
            signal.sigwait({signal.SIGUSR1})
        """
    )
    done = project.runpytest_subprocess("-n1", "--dist=loadgroup", "--max-worker-restart=1", timeout=100)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*worker 'gw0' crashed while running 'test_*::test_deaf'*"])
    done.stderr.fnmatch_lines(["*in wait_for_ever"])


@pytest.mark.parametrize("files", [1, 9])
def test_the_worker_that_replaces_a_dead_one_ends(project: pytest.Pytester, files: int) -> None:
    """The worker dies in the last of all tests."""
    project.makepyfile(
        **{f"test_{number}": "def test_a(): pass\ndef test_b(): pass\n" for number in range(files)},
        test_last="""
        import os, pathlib

        def test_that_dies_once():
            place = pathlib.Path(__file__).with_name("died")
            if not place.exists():
                place.touch()
                os._exit(9)
        """,
    )
    done = project.runpytest_subprocess("-n2", "--dist=loadgroup", timeout=100)
    done.assert_outcomes(passed=2 * files + 1, failed=1)
    assert Path(project.path / "died").exists()
