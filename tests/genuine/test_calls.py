"""Calls as clients of many languages write them, and calls that are wrong: a genuine master and ours answer alike."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.genuine.both import answers_of_both
from tests.genuine.releases import Release

SCHEDULER, OPERATOR = "/api/v1/scheduler", "/api/v1"
ID = {"value": "x"}
WISHES: tuple[dict[str, Any], ...] = (
    {"checkpoint": "true"},
    {"checkpoint": "yes"},
    {"checkpoint": 1},
    {"failover_timeout": "10"},
    {"failover_timeout": "ten"},
    {"failover_timeout": True},
    {"roles": "a"},
    {"role": "/a"},
    {"roles": ["a", "a"], "capabilities": [{"type": "MULTI_ROLE"}]},
    {"role": "a", "roles": ["a"], "capabilities": [{"type": "MULTI_ROLE"}]},
    {"capabilities": {"type": "GPU_RESOURCES"}},
    {"capabilities": [{"type": "NOPE"}]},
    {"capabilities": [{"type": 8}]},
    {"capabilities": [{"type": "8"}]},
    {"capabilities": ["GPU_RESOURCES"]},
    {"name": 5},
    {"name": None},
    {"id": "x"},
    {"labels": {"labels": [{"value": "no key"}]}},
    {"labels": [{"key": "a"}]},
    {"hostname": ["a"]},
    {"offer_filters": {"a": {}}},
    {"offer_filters": {"*": {"min_allocatable_resources": {"quantities": [{"quantities": {"cpus": ID}}]}}}},
)
TO_SCHEDULER: tuple[object, ...] = (
    *({"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "u", "name": "n", **wish}}} for wish in WISHES),
    *({"type": kind} for kind in ("SUBSCRIBE", "NOPE", "1", 1, None, "TEARDOWN")),
    *({}, [], 5, None),
    {"type": "SUBSCRIBE", "framework_id": ID, "subscribe": {"framework_info": {"user": "u", "name": "n"}}},
    {"type": "ACKNOWLEDGE", "framework_id": ID, "acknowledge": {"agent_id": ID, "task_id": ID, "uuid": "!!"}},
    {"type": "RECONCILE", "framework_id": ID, "reconcile": {"tasks": "a"}},
)
TO_OPERATOR: tuple[object, ...] = (
    *({"type": kind} for kind in ("NOPE", 6, "6", "get_health", "READ_FILE", "UPDATE_WEIGHTS", "SET_QUOTA")),
    {"type": "READ_FILE", "read_file": {"path": "/x", "offset": "0"}},
    {"type": "READ_FILE", "read_file": {"path": "/x", "offset": 1.5}},
    {"type": "SET_LOGGING_LEVEL", "set_logging_level": {"level": "x", "duration": {"nanoseconds": 1}}},
    {"type": "GET_METRICS", "get_metrics": {"timeout": {"nanoseconds": "x"}}},
    *(
        {"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": [weight]}}
        for weight in ({"role": "a", "weight": "2"}, {"role": "a", "weight": 0}, {"role": "", "weight": 1})
    ),
    *(
        {"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [config]}}
        for config in (
            {"role": "a", "guarantees": {"cpus": {"value": "1"}}},
            {"role": "a", "limits": {"cpus": {"value": -1}}},
            {"role": "a", "guarantees": {"cpus": {"value": 2}}, "limits": {"cpus": {"value": 1}}},
            {"role": "a/b"},
        )
    ),
    {"type": "TEARDOWN", "teardown": {"framework_id": ID}},
    *(
        {"type": kind, kind.lower(): {"agent_id": ID}}
        for kind in ("MARK_AGENT_GONE", "DRAIN_AGENT", "DEACTIVATE_AGENT", "REACTIVATE_AGENT")
    ),
    {"type": "RESERVE_RESOURCES", "reserve_resources": {"agent_id": ID, "resources": [{"name": "cpus"}]}},
    *(
        {"type": kind, kind.lower(): {"machines": machines}}
        for kind in ("START_MAINTENANCE", "STOP_MAINTENANCE")
        for machines in ([], [{"hostname": "h"}])
    ),
)
CALLS = [*((SCHEDULER, json.dumps(call)) for call in TO_SCHEDULER), *((OPERATOR, json.dumps(c)) for c in TO_OPERATOR)]
BROKEN = [(path, text) for path in (SCHEDULER, OPERATOR) for text in ("", "{", '{"type":', '{"type": SUBSCRIBE}')]


def answers(port: int) -> dict[tuple[str, str], tuple[int, str]]:
    while answer(port, *CALLS[0])[0] == 503:  # it leads, and has not recovered yet
        time.sleep(0.02)
    return {call: answer(port, *call) for call in CALLS + BROKEN}


def answer(port: int, path: str, body: str) -> tuple[int, str]:
    """Return the status, and what a refusal says, or the kind of the first event."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    try:
        connection.request("POST", path, body=body, headers=headers)
        found = connection.getresponse()
        if found.status == 200 and path == SCHEDULER:
            event = json.loads(found.read(int(found.readline())))
            return 200, event["type"] + event.get("error", {}).get("message", "")
        said = found.read().decode()
        return found.status, said if found.status >= 400 else ""
    finally:
        connection.close()


@pytest.mark.root
async def test_ours_answers_calls_as_a_genuine_master_does(newest: Release, tmp_path: Path) -> None:
    wanted, found = await answers_of_both(newest, tmp_path, answers)
    assert {call: (found[call], wanted[call]) for call in wanted if found[call] != wanted[call]} == {}
    assert {status for status, _ in wanted.values()} >= {200, 400, 404}
