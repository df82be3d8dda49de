"""`mesos-gpu task ls` and `download` against a scripted master and agent that serve a real folder."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from marathon_cli.show.logs import inside
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer

TASK = "train.instance-1._app.1"


class Served:
    """A folder that is the sandbox of a task that has ended."""

    def __init__(self, server: ScriptedServer, folder: Path) -> None:
        self.folder = folder
        address = server.url.removeprefix("http://")
        server.on("GET", "/slaves", {"slaves": [{"id": "S1", "hostname": "h", "pid": f"slave(1)@{address}"}]})
        server.on("GET", "/tasks", {"tasks": [{"id": TASK, "slave_id": "S1", "state": "TASK_FINISHED"}]})
        executor = {"id": TASK, "directory": "/sb", "completed_tasks": [{"id": TASK, "state": "TASK_FINISHED"}]}
        server.on("GET", "/state", {"completed_frameworks": [{"completed_executors": [executor]}]})
        server.on("GET", "/files/browse", self._browse)
        server.on("GET", "/files/download", self._download)

    def write(self, path: str, data: bytes = b"", mode: int = 0o644) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(mode)
        os.utime(file, (1_000_000_000, 1_000_000_000))

    def _real(self, request: Request) -> Path:
        return self.folder / request.query["path"].removeprefix("/sb").lstrip("/")

    def _browse(self, request: Request) -> Answer:
        folder = self._real(request)
        if not folder.exists():
            return Answer(404, b"")
        if not folder.is_dir():
            return Answer(400, f"'{folder}' is not a directory.\n".encode())
        return Answer(200, [self._shown(request.query["path"], path) for path in folder.iterdir()])

    def _shown(self, folder: str, path: Path) -> dict[str, object]:
        status = path.stat()
        shown = {"mode": stat.filemode(status.st_mode), "size": status.st_size, "mtime": status.st_mtime}
        return {"path": f"{folder}/{path.name}", "nlink": 1, "uid": "root", "gid": "root", **shown}

    def _download(self, request: Request) -> Answer:
        path = self._real(request)
        if not path.exists():
            return Answer(404, b"")
        data = path.read_bytes()
        return Answer(200, data)


@pytest.fixture
def served(marathon: ScriptedServer, tmp_path: Path) -> Served:
    folder = tmp_path / "sandbox"
    folder.mkdir()
    made = Served(marathon, folder)
    made.write("stdout", b"hello\n")
    made.write("model/weights.bin", bytes(range(256)) * 9000, mode=0o755)
    made.write("model/deep/notes.txt", "ä".encode())
    return made


def test_ls_shows_names_and_with_l_all(served: Served, run: Run) -> None:
    assert run("task", "ls", "train").stdout == "model/\nstdout\n"
    assert run("task", "ls", "train", "model").stdout == "deep/\nweights.bin\n"
    assert run("task", "ls", "train", "/model/./weights.bin").stdout == "weights.bin\n"
    header, model, stdout = run("task", "ls", "-l", "train").stdout.splitlines()
    assert header.split() == ["MODE", "LINKS", "UID", "GID", "SIZE", "DATE", "NAME"]
    assert model.startswith("drwx")
    assert stdout.split()[:5] == ["-rw-r--r--", "1", "root", "root", "6"]
    shown = json.loads(run("task", "ls", "train", "model", "--json").stdout)
    assert [one["path"] for one in shown] == ["model/deep", "model/weights.bin"]


def test_of_several_that_have_ended_the_last_one_s_files_are_meant(
    served: Served, marathon: ScriptedServer, run: Run, golden: Golden
) -> None:
    older = {"id": "train.instance-2._app.1", "slave_id": "S1", "state": "TASK_FAILED", "statuses": [{"timestamp": 1}]}
    last = {"id": TASK, "slave_id": "S1", "state": "TASK_FINISHED", "statuses": [{"timestamp": 2}]}
    marathon.on("GET", "/tasks", {"tasks": [older, last]})
    done = run("task", "ls", "train")
    assert done.stdout == "model/\nstdout\n"
    assert done.stderr == golden


def test_files_that_the_agent_has_removed_are_said_to_be_gone(
    served: Served, marathon: ScriptedServer, run: Run, golden: Golden
) -> None:
    executor = {"id": TASK, "directory": "/sb", "completed_tasks": [{"id": TASK, "state": "TASK_FINISHED"}]}
    past = [{"completed_executors": [executor]}]
    marathon.on("GET", "/state", {"completed_frameworks": past, "flags": {"gc_delay": "3days"}})
    marathon.on("GET", "/files/browse", Answer(404, b""))
    marathon.on("GET", "/files/read", Answer(404, b""))
    for words in (("ls",), ("log", "--completed"), ("log", "--completed", "--follow"), ("download",)):
        result = run("task", *words, "train")
        assert result.exit_code == 1
        assert result.stderr == golden
    marathon.on("GET", "/state", {"flags": {"gc_delay": "3days"}})
    assert run("task", "ls", "train").stderr == golden


@pytest.mark.parametrize(("path", "said"), [("nothing", "has no nothing in its"), ("a/../../x", "out of the sandbox")])
def test_ls_of_what_is_not_there_is_refused(served: Served, run: Run, path: str, said: str) -> None:
    result = run("task", "ls", "train", path)
    assert (result.exit_code, said in result.stderr) == (1, True)


def test_download_copies_all_with_modes_and_times(served: Served, run: Run, tmp_path: Path, golden: Golden) -> None:
    target = tmp_path / "here"
    result = run("task", "download", "train", "--target-dir", str(target))
    assert result.exit_code == 0
    assert result.stdout == golden
    for path in ("stdout", "model/weights.bin", "model/deep/notes.txt"):
        assert (target / path).read_bytes() == (served.folder / path).read_bytes()
    status = (target / "model/weights.bin").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o755, 1_000_000_000)


@pytest.mark.parametrize(
    ("wanted", "copied"),
    [
        (["stdout"], ["stdout"]),
        (["model/deep"], ["model/deep/notes.txt"]),
        (["std*", "*.bin"], ["model/weights.bin", "stdout"]),
        (["mod*"], ["model/deep/notes.txt", "model/weights.bin"]),
    ],
)
def test_download_takes_paths_and_patterns(
    served: Served, run: Run, tmp_path: Path, wanted: list[str], copied: list[str]
) -> None:
    target = tmp_path / "here"
    result = run("task", "download", "-q", "-d", str(target), "train", *wanted)
    assert sorted(result.stdout.split()) == [str(target / path) for path in copied]
    assert sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()) == copied


def test_download_replaces_nothing_unless_told(served: Served, run: Run, tmp_path: Path, golden: Golden) -> None:
    target = tmp_path / "here"
    target.mkdir()
    (target / "stdout").write_text("mine")
    refused = run("task", "download", "train", "-d", str(target))
    assert (refused.exit_code, refused.stderr) == (1, golden)
    assert [path.name for path in target.iterdir()] == ["stdout"]
    assert (target / "stdout").read_text() == "mine"
    assert run("task", "download", "train", "-d", str(target), "--force").exit_code == 0
    assert (target / "stdout").read_text() == "hello\n"
    (target / "model/deep/notes.txt").unlink()
    (target / "model/deep").rmdir()
    (target / "model/deep").write_text("in the way")
    assert run("task", "download", "train", "-d", str(target), "--force").stderr == golden


def test_a_copy_that_breaks_off_leaves_no_half_file(
    served: Served, marathon: ScriptedServer, run: Run, tmp_path: Path
) -> None:
    whole = (served.folder / "model/weights.bin").read_bytes()
    # The answer promises more than it has: the connection ends in its midst.
    marathon.on("GET", "/files/download", Answer(200, whole, {"Content-Length": str(len(whole) + 1)}))
    target = tmp_path / "here"
    result = run("task", "download", "train", "model/weights.bin", "-d", str(target))
    assert (result.exit_code, "broke" in result.stderr) == (1, True)
    assert [path for path in target.rglob("*") if path.is_file()] == []


def test_a_file_that_vanishes_meanwhile_is_said(
    served: Served, marathon: ScriptedServer, run: Run, tmp_path: Path, golden: Golden
) -> None:
    marathon.on("GET", "/files/download", Answer(404, b""))
    assert run("task", "download", "train", "stdout", "-d", str(tmp_path / "x")).stderr == golden


def test_what_is_no_file_is_left_out_and_a_name_that_is_none_refused(
    served: Served, marathon: ScriptedServer, run: Run, tmp_path: Path, golden: Golden
) -> None:
    os.mkfifo(served.folder / "pipe")
    result = run("task", "download", "train", "pipe", "stdout", "-d", str(tmp_path / "x"))
    assert (result.exit_code, result.stderr) == (0, golden)
    evil = {"path": "/sb/..", "mode": "-rw-r--r--", "size": 1, "mtime": 0.0}
    marathon.on("GET", "/files/browse", Answer(200, [evil]))
    assert run("task", "download", "train", "-d", str(tmp_path / "y")).stderr == golden
    assert not (tmp_path / "y").exists()


def test_folders_in_a_circle_end(served: Served, run: Run, tmp_path: Path, golden: Golden) -> None:
    (served.folder / "loop").symlink_to(".")
    result = run("task", "download", "train", "loop", "-d", str(tmp_path / "x"))
    assert (result.exit_code, result.stderr) == (1, golden)


def test_a_task_of_a_group_has_a_sandbox_of_its_own(served: Served, marathon: ScriptedServer, run: Run) -> None:
    pod = "team_pod.instance-5.main"
    marathon.on("GET", "/tasks", {"tasks": [{"id": pod, "slave_id": "S1", "state": "TASK_RUNNING"}]})
    executor = {
        "id": "instance-5",
        "type": "DEFAULT",
        "directory": "/sb",
        "tasks": [{"id": pod, "state": "TASK_RUNNING"}],
    }
    marathon.on("GET", "/state", {"frameworks": [{"executors": [executor]}]})
    served.write(f"tasks/{pod}/mine", b"x")
    assert run("task", "ls", "team/pod").stdout == "mine\n"


def test_a_path_stays_inside(golden: Golden) -> None:
    assert [inside(text) for text in ("", "/", ".", "a//b/./c")] == ["", "", "", "a/b/c"]
    with pytest.raises(BadInput) as refused:
        inside("a/..")
    assert str(refused.value) == golden
