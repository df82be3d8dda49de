"""The plugin in projects of other people: found by its entry point, quiet until asked, and tidy whatever happens."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.box.live import leftovers
from tests.support.places import ROOT

PATIENCE_S = 60.0


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own, which has this package installed with the entry points that pyproject.toml gives it."""
    points = (ROOT / "pyproject.toml").read_text().partition("[project.entry-points.pytest11]\n")[2].partition("\n[")[0]
    installed = pytester.path / "installed" / "mesos_gpu_here-1.0.dist-info"
    installed.mkdir(parents=True)
    lines = re.findall(r'^"?([\w.]+)"? = "([\w.]+)"$', points, re.MULTILINE)
    assert lines, points
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mesos-gpu-here\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{name} = {at}\n" for name, at in lines))
    monkeypatch.setenv("PYTHONPATH", f"{installed.parent}{os.pathsep}{ROOT}")
    quiet = " ".join(f"-p no:{name}" for name in ("cacheprovider", "hypothesispytest", "asyncio", "schemathesis"))
    pytester.makeini(f"[pytest]\naddopts = {quiet}\nfilterwarnings = error\n")
    return pytester


def test_a_run_that_needs_no_box_pays_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_plugin(request):
            assert request.config.pluginmanager.has_plugin("mesos_gpu.testing.plugin")
            loaded = [name for name in sys.modules if name.startswith("mesos_gpu")]
            assert sorted(loaded) == ["mesos_gpu", "mesos_gpu.testing", "mesos_gpu.testing.plugin"]

        def test_without_root_there_are_masters_but_no_agents(mesos_box, monkeypatch):
            monkeypatch.setattr("os.geteuid", lambda: 1000)
            assert mesos_box(agents=0).state()["slaves"] == []
            mesos_box(gpus=1)
            raise AssertionError("not reached")
        """
    )
    done = project.runpytest_subprocess("-rs", "-p", "mesos_gpu.testing.plugin")
    done.assert_outcomes(passed=1, skipped=1)
    done.stdout.fnmatch_lines(["SKIPPED *root*"])


@pytest.mark.root
def test_a_box_ends_with_its_test_or_with_the_run_and_its_logs_are_shown_with_a_failure(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest

        gone = []

        @pytest.fixture(scope="session")
        def shared(mesos_box_factory):
            return mesos_box_factory(gpus=1)

        def test_one(mesos_box, request):
            box = mesos_box(agents=2)
            gone.append(box)
            # A box of the whole run that is first asked for within a test is not of this test.
            assert request.getfixturevalue("shared").is_up
            assert len(box.state()["slaves"]) == 2
            raise ValueError("as a test of mine would")

        def test_two(shared):
            assert not gone[0].is_up
            assert shared.is_up
            assert shared.state()["slaves"][0]["resources"]["gpus"] == 1
        """
    )
    done = project.runpytest_subprocess()
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        [
            "E * ValueError: as a test of mine would",
            "*Captured stdout teardown*",
            "--- */agent2.log",
            "*registered with*",
        ]
    )
    boxes = {box.resolve() for box in project.path.glob("runpytest-*/mesos-box*/[0-9]")}
    assert [leftovers(box) for box in boxes] == [[], []]


@pytest.mark.root
def test_nothing_is_left_when_pytest_is_killed(project: pytest.Pytester) -> None:
    news = project.path / "news"
    os.mkfifo(news)
    project.makepyfile(
        f"""
        import sys, threading
        sys.path.insert(0, {str(ROOT)!r})
        from mesos_gpu.framework import GpuTask
        from tests.support.player import playing

        def test_waits(mesos_box):
            box = mesos_box(agents=2, gpus=1)
            with playing(box) as player:
                for n in range(2):
                    player.launch(GpuTask(f"stays-{{n}}", "exec sleep 1000"))
                    player.status("TASK_RUNNING", f"stays-{{n}}")
                box.agents[0].kill()
                box.agents[1].partition()
                with open({str(news)!r}, "w") as file:
                    file.write(f"{{box._fork_server.pid}} {{box.work_dir}}")
                threading.Event().wait()
        """
    )
    with (project.path / "inner.log").open("wb") as log:
        running = project.popen([*project._getpytestargs(), "-x"], stdout=log, stderr=log)
    try:
        with news.open() as file:
            nursery, work_dir = file.read().split()
        assert len(leftovers(Path(work_dir))) > 2, "tasks are running"
        watch = os.pidfd_open(int(nursery))
        running.send_signal(signal.SIGKILL)
        ended, _, _ = select.select([watch], [], [], PATIENCE_S)
        os.close(watch)
    finally:
        running.kill()
        running.wait()
    log_of = (Path(work_dir).parent / "fork-server.log").read_text()
    assert ended, log_of
    assert leftovers(Path(work_dir)) == []
    assert log_of == ""


USERS_TEST = """\
from mesos_gpu.testing import BoxFactory


def test_training(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=4, agents=2, marathon=True)
    reveal_type(box)
    agent = box.agents[0]
    reveal_type(agent)
    box.masster
    mesos_box(gpu=4)
"""


@pytest.mark.slow
def test_what_a_box_is_needs_no_annotation_but_the_fixtures(tmp_path: Path) -> None:
    file = tmp_path / "test_training.py"
    file.write_text(USERS_TEST)
    # Not our own settings, and not our folder: what is there is found as an installed package is, by its py.typed.
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path}",
        "--no-error-summary",
    ]
    done = subprocess.run(
        [*words, "--follow-imports=silent", file.name],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.findall(r'Revealed type is "(.*)"', done.stdout) == [
        "mesos_gpu.testing.box.MesosBox",
        "mesos_gpu.testing.box.BoxAgent",
    ], done.stdout + done.stderr
    errors = [line.partition("error: ")[2] for line in done.stdout.splitlines() if "error: " in line]
    assert len(errors) == 2, done.stdout
    assert errors[0].startswith('"MesosBox" has no attribute "masster"; maybe "master"?')
    assert errors[1].startswith('Unexpected keyword argument "gpu" for "__call__" of "BoxFactory"')
