"""What parts of an app do not go together: each rule names the place and says it in words."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.app import AppRules, read_app

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
    ({"networks": [HOST, {"name": "a"}]}, "/networks", "one host network, or one bridge"),
    ({"networks": [BRIDGE, BRIDGE], "container": MESOS}, "/networks", "one host network, or one bridge"),
    ({"networks": [{**HOST, "name": "a"}]}, "/networks(0)/name", "a host network has no name"),
    (
        {"networks": [{**BRIDGE, "name": "a"}], "container": MESOS},
        "/networks(0)/name",
        "a container/bridge network has",
    ),
    ({"networks": [{**HOST, "labels": {"a": "b"}}]}, "/networks(0)/labels", "the host network has no labels"),
    (
        {"networks": [{"name": "a"}, {"name": "a"}], "container": MESOS},
        "/networks",
        "the network a is named twice",
    ),
    ({"networks": [{"name": "a"}, {"name": "b"}], "container": DOCKER}, "/networks", "one container network at most"),
    ({"ipAddress": {}, "networks": [HOST]}, "/", "ipAddress and networks"),
    ({"ipAddress": {}, "ports": [80]}, "/", "ipAddress may not be used together with ports"),
    (
        {"ipAddress": {"discovery": {"ports": [{"number": 80, "name": "a", "protocol": "tcp"}]}}, "container": DOCKER},
        "/ipAddress/discovery/ports",
        "do not work with the Docker containerizer",
    ),
    (
        {
            "ipAddress": {"discovery": {"ports": [{"number": 80, "name": "a", "protocol": "tcp"}]}},
            "container": mapped({}),
        },
        "/ipAddress/discovery/ports",
        "together with port mappings",
    ),
]
PORTS = [
    ({"ports": [1], "portDefinitions": [{"port": 2}]}, "/", "ports and portDefinitions say different things"),
    (
        {"networks": [BRIDGE], "container": {**mapped({}), "docker": {"image": "i", "portMappings": [{}]}}},
        "/container/docker/portMappings",
        "may not be used together",
    ),
    (
        {"portDefinitions": [{"port": 0, "name": "a"}, {"port": 0, "name": "a"}]},
        "/portDefinitions",
        "two ports are named 'a'",
    ),
    (
        {"networks": [BRIDGE], "container": mapped({"name": "a"}, {"name": "a"})},
        "/container/portMappings",
        "two ports are named 'a'",
    ),
    (
        {"networks": [{"name": "a"}], "container": mapped({"networkNames": ["b"]})},
        "/container/portMappings(0)/networkNames",
        "no network 'b'",
    ),
]
CHECKS = [
    ({"healthChecks": [{"protocol": "COMMAND"}]}, "/healthChecks(0)/command", "needs a command"),
    ({"healthChecks": [{"protocol": "TCP"}], "ports": []}, "/healthChecks(0)", "no port to check; it has 0"),
    ({"healthChecks": [{"portIndex": 2}], "ports": [0]}, "/healthChecks(0)", "portIndex 2 is not one of"),
    (
        {"healthChecks": [{"protocol": "MESOS_TCP", "ipProtocol": "IPv6"}], "ports": [0]},
        "/healthChecks(0)/ipProtocol",
        "IPv6 only works with the Docker",
    ),
    ({"check": {"tcp": {"portIndex": 0}}, "container": DOCKER, "ports": [0]}, "/check", "use `healthChecks`"),
    ({"check": {"tcp": {"portIndex": 1}}, "ports": [0]}, "/check/tcp/portIndex", "not one of the app's 1 ports"),
    ({"check": {"http": {"portIndex": 1}}, "ports": [0]}, "/check/http/portIndex", "not one of the app's 1 ports"),
]
OTHERS = [
    (volumes({**PERSISTENT, "containerPath": "a/b"}), "/container/volumes(0)/containerPath", "without slashes"),
    (volumes({**PERSISTENT, "mode": "RO"}), "/container/volumes(0)/mode", "must be writable"),
    ({"fetch": [{"uri": "http://h/a b"}]}, "/fetch(0)/uri", "'http://h/a b' is not a URI"),
    ({"fetch": [{"uri": "http://[h"}]}, "/fetch(0)/uri", "is not a URI"),
    ({"uris": ["a|b"]}, "/uris(0)", "is not a URI"),
    (
        {"container": {**MESOS, "docker": {"image": "i", "parameters": [{"key": "a", "value": "b"}]}}},
        "/container/docker/parameters",
        "only work with the Docker containerizer",
    ),
    (
        {"container": {**MESOS, "docker": {"image": "i", "credential": {"principal": "p"}}}},
        "/container/docker/credential",
        "use `pullConfig`",
    ),
    ({"constraints": [["", "UNIQUE"]]}, "/constraints(0)", "a constraint needs a field"),
    ({"constraints": [["a", "GROUP_BY", "x"]]}, "/constraints(0)", "GROUP_BY needs a whole number"),
    ({"constraints": [["a", "IS", "b c"]]}, "/constraints(0)", "IS compares with letters, digits"),
    ({**SINGLE, "upgradeStrategy": {"maximumOverCapacity": 1}}, "/upgradeStrategy", "both capacities must be 0"),
    (
        {**volumes(PERSISTENT), "upgradeStrategy": {"maximumOverCapacity": 1, "minimumHealthCapacity": 0}},
        "/upgradeStrategy/maximumOverCapacity",
        "persistent volumes",
    ),
    ({"env": {"": "a"}}, "/env", "a variable needs a name"),
]


@pytest.mark.parametrize(("fields", "path", "words"), [*NETWORKS, *PORTS, *CHECKS, *OTHERS])
def test_what_does_not_go_together_is_said_at_its_place(fields: dict[str, Any], path: str, words: str) -> None:
    rules = AppRules(features=frozenset({"gpu_resources", "external_volumes", "secrets"}))
    with pytest.raises(InvalidApp) as caught:
        read_app({"id": "a", "cmd": "sleep 9", **fields}, rules)
    told = {problem.path: f"{problem.message} {problem.suggestion}" for problem in caught.value.problems}
    assert path in told, told
    assert words in told[path], told
