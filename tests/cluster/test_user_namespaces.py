"""What a task is given from elsewhere, when each container's users have numbers of its own (`--userns_remap`).

The programs, apps, and `mesos-gpu task exec`: files that are fetched, images, volumes of any kind.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.base.linux.libc import call
from mesos_gpu.container.host.mounts import unmount
from tests.support.container.waiting import until
from tests.support.folders import open_folder
from tests.support.ids import EACH, PLACES, first_of_ours
from tests.support.images.build import Layer, busybox_image, file, folder, save_archive, tar_of
from tests.support.programs import AGENT, MARATHON, Programs, started_in
from tests.support.terminal import terminal

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

FIRST = first_of_ours()
NOBODY = 65534
FLAG = f"--userns_remap={FIRST}:{PLACES * EACH}"


class Cluster:
    """Master, agent and Marathon, and the command line."""

    def __init__(self, programs: Programs) -> None:
        self.programs, self.folder = programs, programs.folder
        self.env = {key: value for key, value in os.environ.items() if key != "MESOS_GPU_WORK_DIR"}
        (self.folder / "images").mkdir()
        image = busybox_image(Layer(tar_of(folder("srv", uid=1000, mode=0o700), file("srv/own", b"kept\n", uid=1000))))
        save_archive(self.folder / "images" / "small.tar", image, "small:latest")
        self.master = programs.start_master()
        self.start_agent()
        marathon = programs.start(
            MARATHON,
            f"--master={self.master.removeprefix('http://')}",
            *("--http_port=0", "--http_address=127.0.0.1", "--hostname=127.0.0.1", "--mesos_role=apps"),
            "--gpu_scheduling_behavior=unrestricted",
            f"--store_path={self.folder / 'marathon.db'}",
        )
        self.env |= {"MARATHON_URL": marathon["url"], "MESOS_URL": self.master}

    def start_agent(self) -> None:
        images = f"--docker_registry={self.folder / 'images'}"
        self.programs.start_agent(self.master, FLAG, "--image_providers=docker", images)

    def cli(self, *words: str, text: str | None = None, status: int = 0) -> str:
        command = [sys.executable, "-m", "marathon_cli", *words]
        done = subprocess.run(
            command, env=self.env, input=text, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == status, f"{done.stdout}\n{done.stderr}\n{self.log()}"
        return done.stdout

    def log(self) -> str:
        return (self.folder / f"{AGENT}.log").read_text()

    def add(self, name: str, cmd: str, **more: Any) -> None:
        app = {"id": name, "cmd": cmd, "cpus": 0.1, "mem": 32, **more}
        self.cli("app", "add", "-", "--wait", "--timeout", "60", text=json.dumps(app))

    def until_said(self, name: str, text: str) -> list[str]:
        until(lambda: text in self.cli("task", "log", name))
        return self.cli("task", "log", name).splitlines()

    def owners(self, pattern: str) -> dict[str, int]:
        """Return who owns what is on disk below the agent's folder."""
        return {path.name: path.lstat().st_uid for path in (self.folder / "agent").rglob(pattern)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all: each test has apps of its own."""
    with open_folder() as place, started_in(place) as programs:
        yield Cluster(programs)


def archive(path: Path) -> str:
    """Write an archive whose maker has numbers of his own, and return its URI."""
    with tarfile.open(path, "w:gz") as tar:
        for name, mode, data in (("tools/run", 0o755, b"#!/bin/sh\necho runs\n"), ("tools/data", 0o640, b"data\n")):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = len(data), mode, 4321, 4321
            tar.addfile(member, io.BytesIO(data))
    return path.as_uri()


LOOK = """
stat -c '%n %u:%g %a' tools/run tools/data plain | sort; tools/run; cat tools/data
echo more >> tools/data && rm plain && echo mine > tools/by-$(id -un) && echo written
echo looked; exec sleep 1000
"""


USERS = [pytest.param("root", 0, FIRST, id="root"), pytest.param("nobody", NOBODY, NOBODY, id="nobody")]
"""Named, as every worker collects the same names while FIRST differs."""


@pytest.mark.parametrize(("user", "uid", "disk"), USERS)
def test_what_is_fetched_is_the_users(cluster: Cluster, user: str, uid: int, disk: int) -> None:
    plain = cluster.folder / "plain"
    plain.write_text("plain\n")
    plain.chmod(0o644)
    fetched = [{"uri": archive(cluster.folder / "tools.tgz"), "extract": True}, {"uri": plain.as_uri()}]
    for cached, name in ((False, "once"), (True, "cached"), (True, "again")):
        cluster.add(f"{user}-{name}", LOOK, user=user, fetch=[{**one, "cache": cached} for one in fetched])
        said = cluster.until_said(f"{user}-{name}", "looked")
        names = [line.split()[:2] for line in said[:3]]
        gid = said[0].split()[1].partition(":")[2]
        assert names == [[file, f"{uid}:{gid}"] for file in ("plain", "tools/data", "tools/run")], said
        assert said[3:] == ["runs", "data", "written", "looked"], said
    assert set(cluster.owners(f"by-{user}").values()) == {disk}


FOREVER = "echo up; exec sleep 1000"
WHERE = "xargs < /proc/self/uid_map; id -u"
VOLUMES = {
    "type": "MESOS",
    "docker": {"image": "small"},
    "volumes": [{"containerPath": "data", "mode": "RW", "persistent": {"size": 16}}],
}


def test_a_volume_an_image_and_a_session_over_the_agents_death(cluster: Cluster) -> None:
    """The app's second task has other numbers than its first, and finds everything as it was."""
    own = f"{WHERE}; stat -c %u /srv data | xargs; cat /srv/own; cat data/* 2>/dev/null"
    cluster.add(
        "keep", f"{own}; echo word >> data/log; chmod 600 data/log; echo up; exec sleep 1000", container=VOLUMES
    )
    first = cluster.until_said("keep", "up")
    assert first[0].startswith("0 ")
    assert first[1:] == ["0", "1000 0", "kept", "up"]
    # A session is in the namespaces of its task, and so is what it writes.
    there = cluster.cli("task", "exec", "keep", "--", "sh", "-c", f"{WHERE}; cat data/log; echo s > data/by-session")
    assert there.splitlines() == [first[0], "0", "word"]
    typed = cluster.cli("task", "exec", "-i", "keep", "--", "sh", "-c", "cat > typed; id -u", text="some words")
    assert typed == "0\n"
    assert cluster.cli("task", "exec", "keep", "--", "cat", "typed") == "some words"

    cluster.programs.end(AGENT, signal.SIGKILL)
    cluster.start_agent()
    until(lambda: "word" in cluster.cli("task", "exec", "keep", "--", "cat", "data/log"))
    # It is taken up as it was, and the next container has its own numbers.
    cluster.add("other", f"{WHERE}; echo up; exec sleep 1000")
    other = cluster.until_said("other", "up")
    assert other[0] != first[0]
    cluster.cli("app", "restart", "keep", "--wait")
    again = cluster.until_said("keep", "up")
    assert again[1:] == ["0", "1000 0", "kept", "s", "word", "up"]
    assert cluster.owners("by-session") == {"by-session": FIRST}
    assert set(cluster.owners("log").values()) == {FIRST}


def test_a_folder_of_the_hosts_is_as_the_user_has_it(cluster: Cluster) -> None:
    for name, owner, mode in (("his", NOBODY, 0o700), ("roots", 0, 0o700), ("all", 0, 0o777)):
        (cluster.folder / "host" / name).mkdir(parents=True)
        (cluster.folder / "host" / name / "file").write_text(f"{name}\n")
        (cluster.folder / "host" / name).chmod(mode)
        os.chown(cluster.folder / "host" / name, owner, owner)
    volume = {"containerPath": "host", "hostPath": str(cluster.folder / "host"), "mode": "RW"}
    look = f"""{WHERE}
    for name in his roots all; do cat host/$name/file 2>/dev/null; echo x 2>/dev/null > host/$name/by-$USER_IS; done
    echo looked; exec sleep 1000"""
    found = {}
    for user in ("root", "nobody"):
        container = {"type": "MESOS", "volumes": [volume]}
        cluster.add(f"host-{user}", look, user=user, env={"USER_IS": user}, container=container)
        found[user] = cluster.until_said(f"host-{user}", "looked")[1:]
    # Root in there is somebody who owns nothing: he has what everybody has.
    assert found == {"root": ["0", "all", "looked"], "nobody": [str(NOBODY), "his", "all", "looked"]}
    written = {
        str(path.relative_to(cluster.folder / "host")): path.stat().st_uid
        for path in cluster.folder.glob("host/*/by-*")
    }
    assert written["his/by-nobody"] == written["all/by-nobody"] == NOBODY
    assert written["all/by-root"] == FIRST, "the same to the next container, whose numbers are others"
    assert set(written) == {"his/by-nobody", "all/by-nobody", "all/by-root"}


def test_a_command_is_typed_into(cluster: Cluster) -> None:
    """`run -it` starts on a terminal of its container's, and `task exec -it` on another."""
    with terminal() as tty:
        shell = f"{WHERE}; stty size; read line && exit $line"
        with tty.run([sys.executable, "-m", "marathon_cli", "run", "-it", "--", "sh", "-c", shell], cluster.env) as run:
            tty.until(b"24 80")
            tty.type(b"9\r")
            assert tty.end(run) == 9
        cluster.add("typed", FOREVER)
        words = ["task", "exec", "-it", "typed", "--", "sh", "-c", "id -u; tty && read line && exit $line"]
        with tty.run([sys.executable, "-m", "marathon_cli", *words], cluster.env) as run:
            tty.until(b"0\r\n/dev/pts/")
            tty.type(b"8\r")
            assert tty.end(run) == 8


def test_what_is_mounted_in_a_folder_of_the_hosts_is_there(cluster: Cluster) -> None:
    """Mounted before the agent starts, as disks are. A file system that maps no owners takes them from no other."""
    shown = cluster.folder / "disks"
    mounted = {shown / "data": b"tmpfs", shown / "data" / "proc": b"proc"}
    cluster.programs.end(AGENT, signal.SIGTERM)
    try:
        for path, kind in mounted.items():
            path.mkdir(parents=True)
            call("mount", kind, str(path).encode(), kind, 0, None)
        for path in (shown, shown / "data"):
            os.chown(path, NOBODY, NOBODY)
        cluster.start_agent()
        volume = {"containerPath": "disks", "hostPath": str(shown), "mode": "RW"}
        look = "stat -c %u disks disks/data; echo x > disks/data/by && test -r disks/data/proc/uptime && echo looked"
        for name, more in (("host", {}), ("image", {"docker": {"image": "small"}})):
            container = {"type": "MESOS", "volumes": [volume], **more}
            cluster.add(f"disks-{name}", f"{look}; exec sleep 1000", user="nobody", container=container)
            assert cluster.until_said(f"disks-{name}", "looked") == [str(NOBODY)] * 2 + ["looked"]
            cluster.cli("app", "remove", f"disks-{name}", "--wait")
        assert (shown / "data" / "by").stat().st_uid == NOBODY
    finally:
        for path in reversed(mounted):
            unmount(path)
