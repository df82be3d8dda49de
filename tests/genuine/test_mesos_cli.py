"""Mesos' own command line of its day (`mesos.cli` on PyPI, of Mesosphere), which needs Python 2.7, against the box."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.genuine.python2_packages import installed, interface, python2
from tests.genuine.releases import Missing, cannot
from tests.support.box.live import LiveBox, live_box
from tests.support.saying import says

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PACKAGES = (
    *("mesos.cli==0.1.5", "argcomplete==1.12.3", "blessings==1.7", "futures==3.3.0", "importlib==1.0.4"),
    *("importlib-metadata==2.1.3", "kazoo==2.6.1", "ordereddict==1.1", "prettytable==0.7.2", "requests==2.25.1"),
    *interface("1.4.3"),
)
Mesos = Callable[..., str]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    with live_box(tmp_path_factory.mktemp("mesos-cli") / "box", "--gpu_driver=simulated", "--simulated_gpus=4") as made:
        yield made


@pytest.fixture(scope="module")
def mesos(box: LiveBox, tmp_path_factory: pytest.TempPathFactory) -> Mesos:
    try:
        program, packages = python2(), installed(*PACKAGES)
    except Missing as missing:
        cannot(str(missing))
    home = tmp_path_factory.mktemp("home")
    master = str(box.status()["master"]["url"]).removeprefix("http://")
    (home / "config.json").write_text(
        json.dumps({"profile": "default", "default": {"master": master, "log_level": "warning", "log_file": "null"}})
    )
    environment = {
        **{"HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb"},
        **{"MESOS_CLI_CONFIG": str(home / "config.json"), "PYTHONPATH": str(packages)},
    }

    def run(command: str, *words: str) -> str:
        code = f"import sys; from mesos.cli.cmds import {command}; sys.exit({command}.main())"
        return says([program, "-c", code, *words], home, environment)

    return run


def test_it_lists_tasks_and_reads_their_sandboxes(box: LiveBox, mesos: Mesos) -> None:
    box.add({"id": "/seen", "cmd": "echo said; exec sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    task = str(box.tasks("seen")[0]["id"])
    box.until("it has said so", lambda: "said" in mesos("cat", task, "stdout"))
    (line,) = (line for line in mesos("ps").splitlines() if task in line)
    assert (line.split()[1], "echo said" in line) == ("R", True)
    assert "stdout" in mesos("ls", task)
    assert "said" in mesos("tail", task, "stdout")
    assert "said" in mesos("head", task, "stdout")
    master = str(box.status()["master"]["url"]).removeprefix("http://")
    assert mesos("resolve", master).strip() == master
    state = json.loads(mesos("state"))
    assert [one["name"] for one in state["frameworks"]] == ["marathon"]
    assert state["slaves"][0]["resources"]["gpus"] == 4
    box.ok("app", "remove", "seen", "--wait")
