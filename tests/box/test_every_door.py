"""Every endpoint of master, agent and Marathon, asked by nobody, a stranger, somebody else, an executor, and who may.

The endpoints are those that the running services name. DOORS=FILE writes the table of
docs/reference/endpoints.md.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from mesos_gpu.marathon.api.application import make_api
from mesos_gpu.marathon.engine.election import Election
from mesos_gpu.marathon.engine.metrics import Metrics
from mesos_gpu.mesos.security.authentication import make_token
from tests.support.container.waiting import until

pytestmark = pytest.mark.root

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "endpoints.md"
METHODS = ("GET", "POST", "PUT", "DELETE")
SECRETS = {"ops": "right-7261", "other": "other-7261"}
MARK = "mark-7261"
"""Of the flags, which somebody else may not see."""
ASKED_OF_NOBODY = {
    "master": {"health", "redirect", "version", "system/stats.json", "help"},
    "agent": {"health", "version", "system/stats.json", "help"},
    "marathon": {"/", "/ui", "/ui/{path}", "/ui/api/session"},
}
"""Whoever asks is answered here: as in Mesos, and the page's own files and its way in, which asks for a ticket."""
TOKEN_ONLY = {"api/v1/executor"}
"""Who may do anything else has no token of an executor."""
FROM_THE_PAGE = "/ui/api/"
"""These want a header that only our page sends, and answer 403 without it."""
OF_EXECUTORS = {"api/v1", "api/v1/executor"}
"""The only endpoints of an agent that an executor's token opens."""
UNANSWERED = {"/v2/events", "/ui/api/master/events"}
"""Streams, which would not end; the refusals are looked at all the same."""


@dataclass(frozen=True)
class Service:
    name: str
    url: str
    log: Path
    pid: int


SHOWN = frozenset(
    (
        *("state", "state-summary", "slaves", "frameworks", "tasks", "roles", "redirect", "containers", "flags"),
        *("monitor/statistics", "health", "version", "metrics/snapshot", "system/stats.json", "help", "logging/toggle"),
        *("files/browse", "files/read", "files/download", "files/debug"),
    )
)
"""What master and agent only show, whatever the method, as in Mesos: each has one row, of GET."""


@dataclass(frozen=True)
class Door:
    """One endpoint by one method, and how each of five callers is answered."""

    service: str
    path: str
    method: str
    nobody: int
    wrong: int
    other: tuple[int, bytes]
    executor: int
    right: int


def basic(user: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def ask(url: str, method: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    body = None if method in ("GET", "DELETE") else b"{}"
    more = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(url, method=method, data=body, headers={**headers, **more})
    try:
        with _opener.open(request, timeout=20) as answer:
            return answer.status, answer.read(1 << 20)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read(1 << 20)


ACLS = {
    "permissive": False,
    **{
        action: [{"principals": {"values": ["ops"]}, objects: {"type": "ANY"}}]
        for action, objects in {
            **{"update_quotas": "roles", "update_maintenance_schedules": "machines", "prune_images": "images"},
            **{"get_endpoints": "paths", "view_flags": "flags", "view_frameworks": "users", "view_tasks": "users"},
            **{"launch_standalone_containers": "users", "modify_resource_provider_configs": "resource_providers"},
            **{
                "view_executors": "users",
                "access_sandboxes": "users",
                "access_mesos_logs": "logs",
                "view_roles": "roles",
            },
        }.items()
    },
    # The agent and Marathon come by libprocess messages, which know no principal here.
    "register_agents": [{"principals": {"type": "ANY"}, "agents": {"type": "ANY"}}],
    "register_frameworks": [{"principals": {"type": "ANY"}, "roles": {"type": "ANY"}}],
}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[dict[str, Service]]:
    """One of each, behind credentials."""
    secrets, acls = tmp_path / "credentials.json", tmp_path / "acls.json"
    listed = [{"principal": principal, "secret": secret} for principal, secret in SECRETS.items()]
    secrets.write_text(json.dumps({"credentials": listed}))
    secrets.chmod(0o600)
    key = tmp_path / "key"
    key.write_text(SECRETS["ops"])
    key.chmod(0o600)
    acls.write_text(json.dumps(ACLS))
    walls = ["--authenticate_http_readonly", "--authenticate_http_readwrite", f"--acls={acls}", f"--login_hint={MARK}"]
    with ExitStack() as stack:

        def start(name: str, prefix: str, *flags: str) -> Service:
            ready, log = tmp_path / f"{name}.ready", tmp_path / f"{name}.log"
            command = [sys.executable, "-m", f"mesos_gpu.{name}.service", f"--ready_file={ready}", *flags]
            environment = {**os.environ, "MARATHON_HTTP_CREDENTIALS": f"ops:{SECRETS['ops']}"}
            with log.open("wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            until(lambda: ready.exists() or process.poll() is not None)
            assert ready.exists(), log.read_text()
            return Service(name, json.loads(ready.read_bytes())["url"].rstrip("/"), log, process.pid)

        started = {}
        started["master"] = start(
            *("master", "MESOS_", "--ip=127.0.0.1", "--port=0", f"--work_dir={tmp_path / 'm'}"),
            *(*walls, f"--credentials={secrets}", "--authenticate_http_frameworks"),
            "--http_framework_authenticators=basic",
        )
        started["agent"] = start(
            *("agent", "MESOS_", "--ip=127.0.0.1", "--port=0", f"--work_dir={tmp_path / 'a'}"),
            *(
                f"--master={started['master'].url.removeprefix('http://')}",
                "--gpu_driver=none",
                "--image_providers=docker",
            ),
            *("--authenticate_http_executors", f"--jwt_secret_key={key}"),
            *(*walls, f"--http_credentials={secrets}", f"--cgroups_root=doors-{os.getpid()}"),
        )
        started["marathon"] = start(
            *("marathon", "MARATHON_", "--http_port=0", f"--master={started['master'].url.removeprefix('http://')}"),
            *(f"--store_path={tmp_path / 'marathon.db'}", "--hostname=127.0.0.1"),
            *("--mesos_authentication_principal=ops", f"--mesos_authentication_secret_file={key}"),
        )
        yield started


def endpoints(service: Service) -> list[tuple[str, str]]:
    """Return the (path, method) pairs of a service."""
    if service.name != "marathon":
        status, text = ask(f"{service.url}/help", "GET", {})
        assert status == 200
        names = [line[1:] for line in text.decode().splitlines() if line.startswith("/")]
        return [(name, method) for name in names for method in METHODS]
    found = asyncio.run(_marathons_routes())
    return sorted(
        (path, method)
        for path, asked in found
        for method in (METHODS if asked == "*" else (asked,))
        if method in METHODS and (path == "/" or not path.endswith("/"))
    )


async def _marathons_routes() -> set[tuple[str, str]]:
    nothing = SimpleNamespace(metrics=Metrics(time.monotonic))
    app = make_api(nothing, info=dict, election=Election())  # type: ignore[arg-type]
    return {(route.resource.canonical, route.method) for route in app.router.routes() if route.resource is not None}


def doors(service: Service) -> Iterator[Door]:
    # What would end the service or fill a disk for who may is asked by the others alone.
    harmful = {"/v2/leader", "images/pull"}
    # The agent signs tokens with this key; masters and Marathon accept none.
    token = make_token({"fid": "f", "eid": "e", "cid": "c"}, SECRETS["ops"].encode())
    for path, method in endpoints(service):
        place = path.replace("{", "").replace("}", "").replace("*", "x").split(":")[0]
        url = f"{service.url}/{place.lstrip('/')}"
        nobody, _ = ask(url, method, {})
        wrong, _ = ask(url, method, basic("ops", "guess"))
        other = ask(url, method, basic("other", SECRETS["other"])) if path not in UNANSWERED else (401, b"")
        executor, _ = ask(url, method, {"Authorization": f"Bearer {token}"})
        unanswered = path in UNANSWERED or (path in harmful and method != "GET")
        right = 0 if unanswered else ask(url, method, basic("ops", SECRETS["ops"]))[0]
        yield Door(service.name, path, method, nobody, wrong, other, executor, right)


def test_every_endpoint_by_every_caller(services: dict[str, Service], tmp_path: Path) -> None:
    found = [door for service in services.values() for door in doors(service)]
    assert len(found) > 150
    wrong = []
    by_get = {(door.service, door.path): door for door in found if door.method == "GET"}
    for door in found:
        shown = is_shown(door)
        # /flags and the like take GET alone once there are ACLs.
        by_get_alone = door.right == 405 and door.other[0] in (403, 405)
        if shown and not by_get_alone and answers(door) != answers(by_get[door.service, door.path]):
            wrong.append(("is another by another method", door))
        closed = door.path not in ASKED_OF_NOBODY[door.service]
        if closed and not (door.nobody == door.wrong == 401):
            wrong.append(("open to strangers", door))
        of_executors = door.service == "agent" and door.path in OF_EXECUTORS
        if closed and not of_executors and door.executor != (403 if door.service == "agent" else 401):
            wrong.append(("open to executors", door))
        if not closed and 401 in (door.nobody, door.wrong):
            wrong.append(("asks who asks", door))
        if (door.right == 401) is not (door.path in TOKEN_ONLY):
            wrong.append(("closed to who may, or open without a token", door))
        if door.right == 403 and not door.path.startswith(FROM_THE_PAGE):
            wrong.append(("closed to who may", door))
        if MARK.encode() in door.other[1] and door.other[0] != 401:
            wrong.append(("shows somebody else what is not for him", door))
        if closed and door.method != "GET" and not shown and 200 <= door.other[0] < 300:
            wrong.append(("lets somebody else change something", door))
        if door.right >= 500 and door.right != 503:
            wrong.append(("fails", door))
    said = (f"{what}: {door} (somebody else: {door.other[0]} {door.other[1][:60]!r})" for what, door in wrong)
    assert wrong == [], "\n".join(said)
    if "DOORS" in os.environ:
        Path(os.environ["DOORS"]).write_text(table(found))
    assert to_strangers(table(found)) == to_strangers(PAGE.read_text()), (
        f"out of date; run DOORS={PAGE} python -m pytest tests/box/test_every_door.py"
    )
    _no_secret_is_anywhere(services, tmp_path)


def _no_secret_is_anywhere(services: dict[str, Service], tmp_path: Path) -> None:
    secrets = [secret.encode() for secret in SECRETS.values()]
    secrets += [basic("ops", SECRETS["ops"])["Authorization"].split()[1].encode()]
    for service in services.values():
        shown = {"log": service.log.read_bytes(), "ps": Path(f"/proc/{service.pid}/cmdline").read_bytes()}
        right = basic("ops", SECRETS["ops"])
        places = ("state", "flags", "state-summary", "metrics/snapshot", "v2/info", "metrics", "v2/apps", "help")
        shown |= {path: ask(f"{service.url}/{path}", "GET", right)[1] for path in places}
        for where, text in shown.items():
            assert not [secret for secret in secrets if secret in text], (service.name, where)
    for path in tmp_path.rglob("*"):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_mode & 0o044:
            assert not [secret for secret in secrets if secret in path.read_bytes()], path


def is_shown(door: Door) -> bool:
    return door.service != "marathon" and door.path in SHOWN


def answers(door: Door) -> tuple[int, ...]:
    return door.nobody, door.wrong, door.other[0], door.executor, door.right


def to_strangers(page: str) -> list[tuple[str, ...]]:
    """Return the endpoints of a page, each with what strangers are answered; others' answers may be of a moment."""
    rows = (tuple(cell.strip() for cell in line.split("|")[1:6]) for line in page.splitlines() if line.startswith("|"))
    return sorted(rows)


def table(found: list[Door]) -> str:
    """Return docs/reference/endpoints.md."""
    lines = [
        "# Who is answered how",
        "",
        "Made by `DOORS=docs/reference/endpoints.md python -m pytest tests/box/test_every_door.py`, which asks each",
        "endpoint of running services with all walls up: without credentials, with a wrong secret, as another",
        "principal that the lists (`--acls`) give nothing, with the token of an executor, and as one that may all;",
        "with an empty object as the body. 0: not asked. Marathon knows one user.",
        "",
        "| service | endpoint | method | nobody | wrong | another | executor | right |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for door in found:
        if door.right != 405 and (door.method == "GET" or not is_shown(door)):
            told = " | ".join(map(str, answers(door)))
            lines.append(f"| {door.service} | `{'/' + door.path.lstrip('/')}` | {door.method} | {told} |")
    return "\n".join(lines) + "\n"
