"""What parts of an app do not go together: each rule names the place."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.app import AppRules, read_app
from tests.support.golden import Golden

DOCKER = {"type": "DOCKER", "docker": {"image": "i"}}
MESOS = {"type": "MESOS", "docker": {"image": "i"}}
BRIDGE, HOST = {"mode": "container/bridge"}, {"mode": "host"}
SINGLE = {"labels": {"MARATHON_SINGLE_INSTANCE_APP": "true"}}
PERSISTENT = {"containerPath": "p", "persistent": {"size": 1}}


def mapped(*mappings: dict[str, Any], **container: Any) -> dict[str, Any]:
    return {**MESOS, **container, "portMappings": [{"containerPort": 80, **mapping} for mapping in mappings]}


def volumes(*them: dict[str, Any]) -> dict[str, Any]:
    return {"container": {"type": "MESOS", "volumes": list(them)}}


NETWORKS = [
    ({"networks": [HOST, {"name": "a"}]}, "/networks"),
    ({"networks": [BRIDGE, BRIDGE], "container": MESOS}, "/networks"),
    ({"networks": [{**HOST, "name": "a"}]}, "/networks(0)/name"),
    ({"networks": [{**BRIDGE, "name": "a"}], "container": MESOS}, "/networks(0)/name"),
    ({"networks": [{**HOST, "labels": {"a": "b"}}]}, "/networks(0)/labels"),
    ({"networks": [{"name": "a"}, {"name": "a"}], "container": MESOS}, "/networks"),
    ({"networks": [{"name": "a"}, {"name": "b"}], "container": DOCKER}, "/networks"),
    ({"ipAddress": {}, "networks": [HOST]}, "/"),
    ({"ipAddress": {}, "ports": [80]}, "/"),
    (
        {"ipAddress": {"discovery": {"ports": [{"number": 80, "name": "a", "protocol": "tcp"}]}}, "container": DOCKER},
        "/ipAddress/discovery/ports",
    ),
    (
        {
            "ipAddress": {"discovery": {"ports": [{"number": 80, "name": "a", "protocol": "tcp"}]}},
            "container": mapped({}),
        },
        "/ipAddress/discovery/ports",
    ),
]
PORTS = [
    ({"ports": [1], "portDefinitions": [{"port": 2}]}, "/"),
    (
        {"networks": [BRIDGE], "container": {**mapped({}), "docker": {"image": "i", "portMappings": [{}]}}},
        "/container/docker/portMappings",
    ),
    ({"portDefinitions": [{"port": 0, "name": "a"}, {"port": 0, "name": "a"}]}, "/portDefinitions"),
    ({"networks": [BRIDGE], "container": mapped({"name": "a"}, {"name": "a"})}, "/container/portMappings"),
    (
        {"networks": [{"name": "a"}], "container": mapped({"networkNames": ["b"]})},
        "/container/portMappings(0)/networkNames",
    ),
]
CHECKS = [
    ({"healthChecks": [{"protocol": "COMMAND"}]}, "/healthChecks(0)/command"),
    ({"healthChecks": [{"protocol": "TCP"}], "ports": []}, "/healthChecks(0)"),
    ({"healthChecks": [{"portIndex": 2}], "ports": [0]}, "/healthChecks(0)"),
    ({"healthChecks": [{"protocol": "MESOS_TCP", "ipProtocol": "IPv6"}], "ports": [0]}, "/healthChecks(0)/ipProtocol"),
    ({"check": {"tcp": {"portIndex": 0}}, "container": DOCKER, "ports": [0]}, "/check"),
    ({"check": {"tcp": {"portIndex": 1}}, "ports": [0]}, "/check/tcp/portIndex"),
    ({"check": {"http": {"portIndex": 1}}, "ports": [0]}, "/check/http/portIndex"),
]
OTHERS = [
    (volumes({**PERSISTENT, "containerPath": "a/b"}), "/container/volumes(0)/containerPath"),
    (volumes({**PERSISTENT, "mode": "RO"}), "/container/volumes(0)/mode"),
    ({"fetch": [{"uri": "http://h/a b"}]}, "/fetch(0)/uri"),
    ({"fetch": [{"uri": "http://[h"}]}, "/fetch(0)/uri"),
    ({"uris": ["a|b"]}, "/uris(0)"),
    (
        {"container": {**MESOS, "docker": {"image": "i", "parameters": [{"key": "a", "value": "b"}]}}},
        "/container/docker/parameters",
    ),
    (
        {"container": {**MESOS, "docker": {"image": "i", "credential": {"principal": "p"}}}},
        "/container/docker/credential",
    ),
    ({"constraints": [["", "UNIQUE"]]}, "/constraints(0)"),
    ({"constraints": [["a", "GROUP_BY", "x"]]}, "/constraints(0)"),
    ({"constraints": [["a", "IS", "b c"]]}, "/constraints(0)"),
    ({**SINGLE, "upgradeStrategy": {"maximumOverCapacity": 1}}, "/upgradeStrategy"),
    (
        {**volumes(PERSISTENT), "upgradeStrategy": {"maximumOverCapacity": 1, "minimumHealthCapacity": 0}},
        "/upgradeStrategy/maximumOverCapacity",
    ),
    ({"env": {"": "a"}}, "/env"),
]


@pytest.mark.parametrize(("fields", "path"), [*NETWORKS, *PORTS, *CHECKS, *OTHERS])
def test_what_does_not_go_together_is_said_at_its_place(fields: dict[str, Any], path: str, golden: Golden) -> None:
    rules = AppRules(features=frozenset({"gpu_resources", "external_volumes", "secrets"}))
    with pytest.raises(InvalidApp) as caught:
        read_app({"id": "a", "cmd": "sleep 9", **fields}, rules)
    problems = {problem.path: problem for problem in caught.value.problems}
    assert path in problems, problems
    assert [text for text in (problems[path].message, problems[path].suggestion) if text] == golden
