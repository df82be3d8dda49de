"""CNI plugins that do not stand one another: of the agents of a machine, one at a time runs them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mesos_gpu.container.network.netns import make_namespace
from mesos_gpu.container.network.plugins import alone, run_plugin
from tests.support.container.cni_networks import PLUGINS
from tests.support.container.waiting import until
from tests.support.golden import Golden

NO_LOCK = Path("/nonexistent/lock")
"""Agents that cannot have the lock go on without, as if there were none."""

ADDRESS = {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.9.9.2/24", "interface": 0}]}
ADDRESS["interfaces"] = [{"name": "eth0", "sandbox": "/x"}]

RACING = """#!/bin/sh
# Looks whether a chain is there, and makes it: as portmap, but that the moment between lasts until another has come.
cat > /dev/null
[ $CNI_COMMAND = ADD ] || exit 0
cd {window}
mkdir $CNI_CONTAINERID
for try in $(seq 30); do
    [ $(ls | wc -l) -gt 1 ] && {{ echo '{{"code": 999, "msg": "CHAIN_USER_ADD failed (File exists)"}}'; exit 1; }}
    sleep 0.01
done
rmdir $CNI_CONTAINERID
echo '{answer}'
"""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Joiners:
    """Two programs that join containers as agents do, each with its own folder."""

    def __init__(self, place: Path, lock: Path) -> None:
        self._configs, self._plugins = place / "net.d", place / "plugins"
        self._configs.mkdir()
        write_program(self._plugins / "given", f"#!/bin/sh\ncat > /dev/null\necho '{json.dumps(ADDRESS)}'\n")
        chain = [{"type": "given"}, {"type": "portmap", "snat": True, "capabilities": {"portMappings": True}}]
        network = {"name": "racing", "cniVersion": "0.4.0", "plugins": chain}
        (self._configs / "racing.conflist").write_text(json.dumps(network))
        command = [sys.executable, "-m", "tests.support.container.joiner"]
        self._programs = [
            subprocess.Popen(
                [*command, str(place / f"agent{number}"), *map(str, (self._configs, self._plugins, lock))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]

    def plugin(self, text: str | None = None) -> None:
        """Make this, else the real one, their portmap."""
        path = self._plugins / "portmap"
        if text is None:
            path.symlink_to(PLUGINS / "portmap")
        else:
            write_program(path, text)

    def join_at_once(self, namespace: Path) -> list[str]:
        """Have both join a container at once, with this namespace for the host's; return what they say."""
        for number, program in enumerate(self._programs):
            assert program.stdin is not None
            program.stdin.write(f"{namespace} c{number}\n")
            program.stdin.flush()
        said = []
        for program in self._programs:
            assert program.stdout is not None
            said.append(program.stdout.readline().strip())
        return said

    def close(self) -> None:
        for program in self._programs:
            program.communicate(timeout=60)


@contextmanager
def joiners(place: Path, lock: Path) -> Iterator[Joiners]:
    both = Joiners(place, lock)
    try:
        yield both
    finally:
        both.close()


@contextmanager
def empty_host() -> Iterator[Path]:
    """A network namespace in which no chain is, for the host's."""
    descriptor = make_namespace()
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    finally:
        os.close(descriptor)


@pytest.mark.root
@pytest.mark.parametrize("locked", [True, False])
def test_two_agents_do_not_make_the_same_chain_at_once(tmp_path: Path, locked: bool) -> None:
    window = tmp_path / "window"
    window.mkdir()
    with joiners(tmp_path, tmp_path / "lock" if locked else NO_LOCK) as both, empty_host() as host:
        both.plugin(RACING.format(window=window, answer=json.dumps(ADDRESS)))
        said = both.join_at_once(host)
    if locked:
        assert said == ["ok", "ok"]
    else:
        assert any("CHAIN_USER_ADD failed" in words for words in said), "the plugin would show it"


@pytest.mark.root
def test_the_real_portmap_of_two_agents_makes_each_chain_and_rule_once(tmp_path: Path) -> None:
    """Without the lock one in some hundred fails, and most leave rules that are there twice."""
    with ExitStack() as stack:
        both = stack.enter_context(joiners(tmp_path, tmp_path / "lock"))
        both.plugin()
        for _ in range(20):
            with empty_host() as host:
                assert both.join_at_once(host) == ["ok", "ok"]
                listed = subprocess.run(
                    ["nsenter", f"--net={host}", "iptables", "-w", "-t", "nat", "-S"],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                rules = Counter(line for line in listed.splitlines() if "CNI-HOSTPORT" in line)
                assert rules
                assert set(rules.values()) == {1}, listed


def test_who_waits_too_long_goes_on_without(tmp_path: Path, caplog: pytest.LogCaptureFixture, golden: Golden) -> None:
    lock = tmp_path / "lock"
    with alone(lock) as held:
        assert len(held) == 1
        assert lock.stat().st_mode & 0o777 == 0o600
        with alone(lock, wait_s=0) as nothing:
            assert nothing == ()
    assert caplog.messages == golden
    with alone(tmp_path / "no" / "lock") as nothing:
        assert nothing == ()
    assert caplog.messages == golden
    (tmp_path / "link").symlink_to(lock)
    with alone(tmp_path / "link") as nothing:
        assert nothing == ()


def test_a_plugin_is_alone_until_its_end_even_when_its_agent_is_killed(tmp_path: Path) -> None:
    """It has the lock itself."""
    lock, begun, go_on = tmp_path / "lock", tmp_path / "begun", tmp_path / "go"
    write_program(tmp_path / "firewall", f"#!/bin/sh\ntouch {begun}; until [ -e {go_on} ]; do sleep 0.01; done\n")
    code = (
        "import sys, pathlib; from mesos_gpu.container.network.plugins import run_plugin\n"
        "run_plugin(pathlib.Path(sys.argv[1]), {}, {'PATH': '/usr/bin:/bin'}, pathlib.Path(sys.argv[2]))"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "firewall"), str(lock)]) as agent:
        try:
            until(begun.exists)
            agent.kill()
            agent.wait()
            with alone(lock, wait_s=0) as held:
                assert held == ()
        finally:
            agent.kill()
            go_on.touch()
    with alone(lock, wait_s=60) as held:
        assert len(held) == 1


def test_what_a_plugin_leaves_running_keeps_nobody_waiting(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    write_program(tmp_path / "firewall", "#!/bin/sh\nsleep 1000 > /dev/null 2>&1 &\necho $!\n")
    left = int(run_plugin(tmp_path / "firewall", {}, {"PATH": "/usr/bin:/bin"}, lock).stdout)
    try:
        with alone(lock, wait_s=0) as held:
            assert len(held) == 1
    finally:
        os.kill(left, signal.SIGKILL)


def test_plugins_that_stand_one_another_do_not_wait(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    write_program(tmp_path / "bridge", "#!/bin/sh\necho did\n")
    with alone(lock):
        done = run_plugin(tmp_path / "bridge", {}, {"PATH": "/usr/bin:/bin"}, lock)
    assert done.stdout == "did\n"


def test_threads_of_one_agent_are_kept_apart_as_well(tmp_path: Path) -> None:
    lock, counted = tmp_path / "lock", tmp_path / "counted"
    counted.write_text("0")

    def count() -> None:
        for _ in range(20):
            with alone(lock):
                counted.write_text(str(int(counted.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.read_text() == "80"
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
