"""Every endpoint and call of a master, by every kind of principal, where it authenticates all callers.

The endpoints and calls are those of the code: a new one fails the test until a table here has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.mesos.messages import enum_names
from mesos_gpu.mesos.security.authentication import basic_header, make_token
from mesos_gpu.mesos.security.authorization import ACTIONS
from tests.support.master.live import JSON, live_master

SECRETS = {"ops": "s3cret", "spark": "sp:ark"}
CLOSED = (
    *("--authenticate_http_readonly", "--authenticate_http_readwrite", "--authenticate_http_frameworks"),
    "--http_framework_authenticators=basic",
)
KEY = b"the key of an agent"
CALLERS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "executor": {"Authorization": f"Bearer {make_token({'fid': 'f', 'eid': 'e', 'cid': 'c'}, KEY)}"},
    "framework": {"Authorization": basic_header("spark", SECRETS["spark"])},
    "operator": {"Authorization": basic_header("ops", SECRETS["ops"])},
}
PASS = "passes"
OPEN_ENDPOINTS = {"health", "redirect", "version", "system/stats.json", "help"}
FRAMEWORKS_SEE = {
    *("state", "state-summary", "slaves", "frameworks", "tasks", "roles", "quota", "weights"),
    *("maintenance/schedule", "maintenance/status"),
}
"""Endpoints that answer a principal that ACLs give nothing: what it may not see is left out."""
NEED_A_BODY = {
    *("teardown", "reserve", "unreserve", "create-volumes", "destroy-volumes", "machine/down", "machine/up"),
    *("files/browse", "files/read", "files/download", "api/v1", "api/v1/scheduler"),
}
"""Endpoints that look at what is asked before at who may: an empty request is 400 or 405 to every principal."""
DENIED_ENDPOINTS = {"flags", "metrics/snapshot", "files/debug", "logging/toggle"}
AGENT, MACHINES = {"agent_id": {"value": "a"}}, [{"hostname": "h", "ip": "10.0.0.1"}]
CHANGES: Mapping[str, Any] = {
    "SET_LOGGING_LEVEL": {"level": 1, "duration": {"nanoseconds": 10**9}},
    "UPDATE_WEIGHTS": {"weight_infos": [{"role": "r", "weight": 2.0}]},
    "UPDATE_QUOTA": {"quota_configs": [{"role": "r"}]},
    "SET_QUOTA": {"quota_request": {"role": "r"}},
    "REMOVE_QUOTA": {"role": "r"},
    "UPDATE_MAINTENANCE_SCHEDULE": {"schedule": {}},
    "START_MAINTENANCE": {"machines": MACHINES},
    "STOP_MAINTENANCE": {"machines": MACHINES},
    "DRAIN_AGENT": AGENT,
    "DEACTIVATE_AGENT": AGENT,
    "REACTIVATE_AGENT": AGENT,
    "MARK_AGENT_GONE": AGENT,
}
"""Calls that a principal needs leave for whatever they are about, with their bodies."""
ABOUT_SOMETHING: Mapping[str, Any] = {
    "TEARDOWN": {"framework_id": {"value": "f"}},
    "RESERVE_RESOURCES": {**AGENT, "resources": []},
    "UNRESERVE_RESOURCES": {**AGENT, "resources": []},
    "CREATE_VOLUMES": {**AGENT, "volumes": []},
    "DESTROY_VOLUMES": {**AGENT, "volumes": []},
    "GROW_VOLUME": {},
    "SHRINK_VOLUME": {},
    "LIST_FILES": {"path": "/x"},
    "READ_FILE": {"path": "/x", "offset": 0},
    "UNKNOWN": None,
}
"""Calls about something that does not exist here, which every principal is told."""
SHOWN = {
    *("GET_HEALTH", "GET_VERSION", "GET_METRICS", "GET_LOGGING_LEVEL", "GET_STATE", "GET_AGENTS", "GET_FRAMEWORKS"),
    *("GET_EXECUTORS", "GET_OPERATIONS", "GET_TASKS", "GET_ROLES", "GET_WEIGHTS", "GET_MASTER", "GET_QUOTA"),
    *("GET_MAINTENANCE_SCHEDULE", "GET_MAINTENANCE_STATUS", "SUBSCRIBE"),
}


@pytest.mark.parametrize("listed", [False, True], ids=["without ACLs", "with ACLs"])
async def test_every_endpoint_and_call_by_every_principal(tmp_path: Path, listed: bool) -> None:
    file = tmp_path / "credentials"
    file.write_text("".join(f"{name} {secret}\n" for name, secret in SECRETS.items()))
    file.chmod(0o600)
    acls = {
        action: [{"principals": {"values": ["ops"]}, objects: {"type": "ANY"}}]
        for action, (objects, _) in ACTIONS.items()
    }
    words = [f"--credentials={file}", *CLOSED]
    words += [f"--acls={json.dumps({'permissive': False, **acls})}"] if listed else []
    denied = "403" if listed else PASS
    expected: dict[tuple[str, str], str] = {}
    found: dict[tuple[str, str], str] = {}

    def expect(what: str, framework: str, *, opened: bool = False) -> None:
        refused = PASS if opened else "401"
        answers = {"none": refused, "executor": refused, "framework": framework, "operator": PASS}
        expected.update({(what, who): answer for who, answer in answers.items()})

    async with live_master(tmp_path / "m", *words) as master, aiohttp.ClientSession() as http:

        async def ask(what: str, method: str, path: str, document: Any = None) -> None:
            data = None if document is None else json.dumps(document)
            for who, headers in CALLERS.items():
                url, sent = f"{master.url}/{path}", {**JSON, **headers}
                async with http.request(method, url, headers=sent, data=data, allow_redirects=False) as answer:
                    found[what, who] = str(answer.status) if answer.status in (401, 403) else PASS

        async with http.get(f"{master.url}/help") as answer:
            endpoints = {line[1:] for line in (await answer.text()).splitlines() if line.startswith("/")}
        assert endpoints == OPEN_ENDPOINTS | FRAMEWORKS_SEE | NEED_A_BODY | DENIED_ENDPOINTS
        for endpoint in endpoints:
            expect(endpoint, denied if endpoint in DENIED_ENDPOINTS else PASS, opened=endpoint in OPEN_ENDPOINTS)
            await ask(endpoint, "GET", endpoint)
        calls = enum_names("mesos.v1.master.Call.Type")
        assert calls == {*CHANGES, *ABOUT_SOMETHING, *SHOWN, "GET_FLAGS"}
        for kind in calls:
            body = {**CHANGES, **ABOUT_SOMETHING}.get(kind)
            expect(kind, denied if kind in CHANGES or kind == "GET_FLAGS" else PASS)
            await ask(kind, "POST", "api/v1", {"type": kind, **({} if body is None else {kind.lower(): body})})
        for kind in enum_names("mesos.v1.scheduler.Call.Type"):
            # An executor is refused before its call is read; what a framework may do is judged by its events.
            expect(f"scheduler {kind}", PASS)
            await ask(f"scheduler {kind}", "POST", "api/v1/scheduler", {"type": kind})
    wrong = {
        what: f"expected {expected[what]}, got {answer}" for what, answer in found.items() if answer != expected[what]
    }
    assert wrong == {}
