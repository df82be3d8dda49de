"""A box that lets a group in: its members run as themselves, and see and enter what is theirs alone."""

from __future__ import annotations

import base64
import pwd
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from marathon_cli.connection.box import BoxLogin, box_login, find_marathon
from mesos_gpu.errors import Unavailable
from mesos_gpu.local.record import Records
from mesos_gpu.mesos.messages import enum_names
from tests.support.box.live import LiveBox, nothing_left
from tests.support.box.users import as_user

pytestmark = pytest.mark.root
GROUP = "nogroup"
"""A group of every Debian, whose members are others than root: nobody, and another."""
NOBODY = "nobody"
OTHER = next(
    (one.pw_name for one in pwd.getpwall() if one.pw_gid == pwd.getpwnam(NOBODY).pw_gid and one.pw_name != NOBODY), ""
)
FLAGS = ("--gpu_driver=simulated", "--simulated_gpus=2")


class Member:
    """A member, by what he has of his own."""

    def __init__(self, box: LiveBox, name: str) -> None:
        login = as_user(name, lambda: box_login(box.work_dir))
        assert login is not None
        self.login: BoxLogin = login
        self.auth = (login.name, login.secret)
        self.marathon = as_user(name, lambda: find_marathon(box.work_dir))

    def post(self, path: str, document: dict[str, Any]) -> requests.Response:
        return requests.post(self.marathon + path, json=document, auth=self.auth, timeout=60)

    def get(self, path: str) -> Any:
        return requests.get(self.marathon + path, auth=self.auth, timeout=60).json()

    def run(self, box: LiveBox, app: str, cmd: str, **more: Any) -> None:
        added = self.post("/v2/apps", {"id": app, "cmd": f"{cmd}; sleep 1000", "cpus": 0.05, "mem": 32, **more})
        assert added.status_code == 201, added.text
        box.until(f"{app} runs", lambda: self.get(f"/v2/apps/{app}")["app"]["tasksRunning"] == 1)


@pytest.fixture(scope="module")
def closed() -> Iterator[LiveBox]:
    # pytest's own folders are closed to others.
    folder = Path(tempfile.mkdtemp(prefix="mesos-gpu-group-"))
    folder.chmod(0o755)
    box = LiveBox(folder / "box")
    try:
        with nothing_left(box):
            said = box.up(*FLAGS, "--group", GROUP, asks=True)
            assert f"group {GROUP} run tasks as themselves" in said
            yield box
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def executor_of(box: LiveBox, member: str) -> dict[str, Any]:
    """Return the container that a member has, as the owner sees it."""
    secret = (box.work_dir / "access" / "secret").read_text()
    url = box.status()["agents"][0]["url"]
    state = requests.get(f"{url}/state", auth=("box", secret), timeout=60).json()
    (framework,) = [one for one in state["frameworks"] if one["name"] == f"marathon-of-{member}"]
    found: dict[str, Any] = framework["executors"][0]
    return found


def output(box: LiveBox, executor: dict[str, Any], name: str = "stdout") -> str:
    return Path(executor["directory"], name).read_text()


def test_members_run_as_themselves_and_nothing_that_they_ask_for_makes_them_more(closed: LiveBox) -> None:
    nobody = Member(closed, NOBODY)
    powers = ["DAC_OVERRIDE", "DAC_READ_SEARCH", "SETUID"]
    linux = {"effectiveCapabilities": powers, "boundingCapabilities": powers}
    etc = [{"containerPath": "etc", "hostPath": "/etc", "mode": "RW"}]
    nobody.run(
        closed,
        "mine",
        "id -un; head -1 /etc/shadow; head -1 etc/shadow; grep -E 'CapEff|NoNewPrivs' /proc/self/status; echo done",
        container={"type": "MESOS", "linuxInfo": linux, "volumes": etc},
    )
    mine = executor_of(closed, NOBODY)
    closed.until("it has said all", lambda: output(closed, mine).endswith("done\n"))
    assert output(closed, mine).split() == [NOBODY, "CapEff:", "0" * 16, "NoNewPrivs:", "1", "done"]
    assert output(closed, mine, "stderr").count("Permission denied") == 2


def test_nobody_runs_as_root_who_is_not_root(closed: LiveBox) -> None:
    nobody = Member(closed, NOBODY)
    root = {"cpus": 0.05, "mem": 32}
    assert nobody.post("/v2/apps", {"id": "app", "cmd": "sleep 1000", "user": "root", **root}).status_code == 201
    container = {"name": "c", "user": "root", "exec": {"command": {"shell": "sleep 1000"}}, "resources": root}
    assert nobody.post("/v2/pods", {"id": "/pod", "containers": [container]}).status_code == 201
    job = {"id": "job", "run": {"cmd": "sleep 1000", "user": "root", **root}}
    assert nobody.post("/v1/jobs", job).status_code == 201
    assert nobody.post("/v1/jobs/job/runs", {}).status_code == 201

    def refused() -> bool:
        failure = nobody.get("/v2/apps/app?embed=app.lastTaskFailure")["app"].get("lastTaskFailure") or {}
        return "under user 'root'" in str(failure.get("message"))

    closed.until("the master refuses", refused)
    running = [task["appId"] for task in nobody.get("/v2/tasks")["tasks"] if task["state"] == "TASK_RUNNING"]
    assert set(running) <= {"/mine"}
    for path in ("/v2/apps/app?force=true", "/v2/pods/pod?force=true", "/v1/jobs/job?stopCurrentJobRuns=true"):
        requests.delete(nobody.marathon + path, auth=nobody.auth, timeout=60)


def enter(agent: str, container: str, auth: tuple[str, str], user: str | None = None) -> requests.Response:
    """Begin a session in a container."""
    command = {"value": "id -un", **({} if user is None else {"user": user})}
    name = {"value": str(uuid.uuid4()), "parent": {"value": container}}
    body = {"type": "LAUNCH_NESTED_CONTAINER_SESSION"}
    session = {"launch_nested_container_session": {"container_id": name, "command": command}}
    headers = {"Accept": "application/recordio", "Message-Accept": "application/json"}
    return requests.post(f"{agent}/api/v1", json=body | session, auth=auth, headers=headers, timeout=60)


def test_what_is_anothers_is_closed(closed: LiveBox) -> None:
    nobody, other = Member(closed, NOBODY), Member(closed, OTHER)
    other.run(closed, "hers", "echo hers")
    theirs, agent = executor_of(closed, OTHER), closed.status()["agents"][0]["url"]
    for who, status in ((nobody, 403), (other, 200)):
        path = {"path": theirs["directory"]}
        assert requests.get(f"{agent}/files/browse", params=path, auth=who.auth, timeout=60).status_code == status
        assert enter(agent, theirs["container"], who.auth).status_code == status
        for user in ("root", NOBODY):
            assert enter(agent, theirs["container"], who.auth, user).status_code == 403
    said = enter(agent, theirs["container"], other.auth).text
    assert base64.b64encode(f"{OTHER}\n".encode()).decode() in said
    kill = {"type": "KILL_CONTAINER", "kill_container": {"container_id": {"value": theirs["container"]}}}
    assert requests.post(f"{agent}/api/v1", json=kill, auth=nobody.auth, timeout=60).status_code == 403


def test_a_member_sees_himself_and_changes_nothing_of_the_box(closed: LiveBox) -> None:
    nobody, other = Member(closed, NOBODY), Member(closed, OTHER)
    status = closed.status()
    master, agent = status["master"]["url"], status["agents"][0]["url"]
    seen = requests.get(f"{master}/state", auth=nobody.auth, timeout=60).json()
    assert {framework["name"] for framework in seen["frameworks"]} == {f"marathon-of-{NOBODY}"}
    for url in (status["marathon"]["url"], other.marathon):
        assert requests.get(f"{url}/v2/apps", auth=nobody.auth, timeout=60).status_code == 401
    quota = {"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [{"role": NOBODY}]}}
    framework = {"user": "root", "name": "x", "role": NOBODY, "principal": NOBODY}
    subscribe = {"type": "SUBSCRIBE", "subscribe": {"framework_info": framework}}
    for url, body in (
        (f"{master}/api/v1", quota),
        (f"{agent}/gpus/leases", {"gpus": 1}),
        (f"{agent}/gpus/GPU-1/healthy", {}),
        (f"{agent}/gpu_shares/set", {}),
        (f"{agent}/images/pull", {"image": "x"}),
    ):
        assert requests.post(url, json=body, auth=nobody.auth, timeout=60).status_code == 403, url
    said = b""
    url = f"{master}/api/v1/scheduler"
    with requests.post(url, json=subscribe, auth=nobody.auth, stream=True, timeout=60) as answer:
        for chunk in answer.iter_content(None):
            said += chunk
            if b"}}" in said:
                break
    assert b"Not authorized to register framework" in said


SECRETS = ("confidential-name", "confidential-command", "confidential-value", "confidential-label")
"""Parts of what a member runs that no other member may read."""


def listed(url: str, auth: tuple[str, str]) -> Iterator[str]:
    """Yield the endpoints that a master or an agent lists, with what some of them ask for."""
    help_text = requests.get(f"{url}/help", auth=auth, timeout=60).text
    names = re.findall(r"^/(\S+)$", help_text, re.MULTILINE)
    assert "state" in names
    yield from names
    yield from (f"{name}?jsonp=f" for name in names)
    yield from ("tasks?limit=1000", "frameworks?all=true", "containers?show_nested=true&show_standalone=true")


def test_nothing_that_a_member_can_read_tells_what_another_runs(closed: LiveBox) -> None:
    nobody, other = Member(closed, NOBODY), Member(closed, OTHER)
    name, command, value, label = SECRETS
    more = {"env": {"TOKEN": value}, "labels": {"label": label}, "gpus": 1}
    other.run(closed, name, f"echo {command}", **more)
    status = closed.status()
    services = {"master": status["master"]["url"], "agent": status["agents"][0]["url"]}

    def told(auth: tuple[str, str]) -> dict[str, set[str]]:
        """Return which of the secrets each place shows to somebody."""
        found: dict[str, set[str]] = {}
        for service, url in services.items():
            answers = {path: requests.get(f"{url}/{path}", auth=auth, timeout=60) for path in listed(url, auth)}
            calls = enum_names(f"mesos.v1.{service}.Call.Type")
            for call in (one for one in calls if one.startswith("GET_")):
                answers[call] = requests.post(f"{url}/api/v1", json={"type": call}, auth=auth, timeout=60)
            for path, answer in answers.items():
                found[f"{service} {path}"] = {secret for secret in SECRETS if secret in answer.text}
        return found

    owner = told(("box", (closed.work_dir / "access" / "secret").read_text()))
    assert len([place for place, secrets in owner.items() if secrets]) > 10, "the owner sees all in many places"
    assert {place: secrets for place, secrets in told(nobody.auth).items() if secrets} == {}
    requests.delete(f"{other.marathon}/v2/apps/{name}?force=true", auth=other.auth, timeout=60)


def test_who_is_no_member_is_not_let_in(closed: LiveBox) -> None:
    assert as_user("daemon", lambda: box_login(closed.work_dir)) is None
    with pytest.raises(PermissionError):
        as_user("daemon", (closed.work_dir / "members" / NOBODY / "secret").read_text)
    with pytest.raises(PermissionError):
        as_user(NOBODY, (closed.work_dir / "access" / "secret").read_text)


def test_what_runs_goes_on_when_the_group_comes_and_goes(closed: LiveBox) -> None:
    closed.add({"id": "roots", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
    (before,) = closed.ok("task", "list", "-q").split()
    member = Member(closed, NOBODY)
    closed.ok("down", "--keep_tasks")
    closed.up(*FLAGS, asks=True)
    closed.until("the same task is known", lambda: closed.ok("task", "list", "-q").split() == [before])
    assert as_user(NOBODY, lambda: box_login(closed.work_dir)) is None
    master = closed.status()["master"]["url"]
    assert requests.get(f"{master}/state", auth=member.auth, timeout=60).status_code == 401
    box = Records(closed.work_dir).read()
    assert box is not None
    assert box.members == []
    closed.ok("down", "--keep_tasks")
    closed.up(*FLAGS, "--group", GROUP, asks=True)
    closed.until("the same task is known again", lambda: closed.ok("task", "list", "-q").split() == [before])
    again = Member(closed, NOBODY)
    assert again.login.secret != member.login.secret
    closed.until("his app is back", lambda: again.get("/v2/apps/mine")["app"]["tasksRunning"] == 1)


def test_an_app_of_the_owner_is_none_of_a_members(closed: LiveBox) -> None:
    with pytest.raises(Unavailable):
        as_user("daemon", lambda: find_marathon(Path("/no/such/box")))
    assert [app["id"] for app in Member(closed, NOBODY).get("/v2/apps")["apps"]] == ["/mine"]


def test_who_comes_into_the_group_is_let_in_within_seconds_and_who_leaves_it_is_not(closed: LiveBox) -> None:
    master = closed.status()["master"]["url"]
    assert as_user("daemon", lambda: box_login(closed.work_dir)) is None
    subprocess.run(["gpasswd", "--add", "daemon", GROUP], check=True, capture_output=True)
    try:
        closed.until("he has a way in", lambda: as_user("daemon", lambda: box_login(closed.work_dir)) is not None)
        daemon = Member(closed, "daemon")
        daemon.run(closed, "theirs", "id -un")
        assert output(closed, executor_of(closed, "daemon")).strip() == "daemon"
        assert [app["id"] for app in Member(closed, NOBODY).get("/v2/apps")["apps"]] == ["/mine"]
        requests.delete(f"{daemon.marathon}/v2/apps/theirs", auth=daemon.auth, timeout=60)
        closed.until("his app has ended", lambda: daemon.get("/v2/tasks")["tasks"] == [])
    finally:
        subprocess.run(["gpasswd", "--delete", "daemon", GROUP], check=True, capture_output=True)
    closed.until("his way in is gone", lambda: as_user("daemon", lambda: box_login(closed.work_dir)) is None)

    def status() -> int:
        return requests.get(f"{master}/state", auth=daemon.auth, timeout=60).status_code

    closed.until("the master does not know him", lambda: status() == 401)
    with pytest.raises(requests.ConnectionError):
        daemon.get("/v2/apps")
    assert Member(closed, NOBODY).get("/v2/apps/mine")["app"]["tasksRunning"] == 1
