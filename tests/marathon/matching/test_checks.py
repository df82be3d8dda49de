"""An app's checks as Mesos messages, and as probes of our own; executors and networks in the TaskInfo."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.checks import Probe, general_check, health_check, health_probes, readiness_probe
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, Refusal, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.matching.taskinfo import task_info
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.mesos.messages import check as message_problem
from tests.support.marathon.builders import T0, offer, spec

TIMES = {
    "delay_seconds": 15.0,
    "interval_seconds": 60.0,
    "timeout_seconds": 20.0,
    "consecutive_failures": 3,
    "grace_period_seconds": 300.0,
}
TASK = Task("t", "S0", "h0", (31005, 31007), "v", T0, ip_addresses=(("10.0.0.9", "IPv4"),))
BRIDGE = {
    "networks": [{"mode": "container/bridge"}],
    "container": {
        "type": "MESOS",
        "docker": {"image": "i"},
        "portMappings": [{"containerPort": 80, "hostPort": 0, "name": "web"}, {"containerPort": 0, "hostPort": 0}],
    },
}


def launched(made: RunSpec, **changes: Any) -> dict[str, Any]:
    given = Offer.from_json(offer(**changes))
    found = match(made, given, given.resources, [], behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)
    assert isinstance(found, Match), found
    info = task_info(made, "t1", given, found)
    # What is sent must be what Mesos' own message can hold.
    assert message_problem("mesos.v1.TaskInfo", info) is None
    return info


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (
            {"protocol": "MESOS_HTTP", "path": "/up", "portIndex": 1},
            {"type": "HTTP", "http": {"port": 22, "scheme": "http", "path": "/up", "protocol": "IPv4"}},
        ),
        (
            {"protocol": "MESOS_HTTPS", "port": 443},
            {"type": "HTTP", "http": {"port": 443, "scheme": "https", "path": "/", "protocol": "IPv4"}},
        ),
        ({"protocol": "MESOS_TCP"}, {"type": "TCP", "tcp": {"port": 11, "protocol": "IPv4"}}),
        (
            {"protocol": "COMMAND", "command": {"value": "exit 0"}},
            {"type": "COMMAND", "command": {"shell": True, "value": "exit 0"}},
        ),
    ],
)
def test_checks_that_mesos_runs(check: dict[str, Any], expected: dict[str, Any]) -> None:
    made = spec(healthChecks=[{"protocol": "HTTP"}, check], portDefinitions=[{"port": 0}, {"port": 0}])
    assert health_check(made.document, (11, 22)) == {**TIMES, **expected}


def test_only_the_first_of_mesos_checks_is_sent() -> None:
    commands = [{"protocol": "COMMAND", "command": {"value": name}} for name in ("one", "two")]
    sent = health_check(spec(healthChecks=commands).document, (1,))
    assert sent is not None
    assert sent["command"]["value"] == "one"
    assert health_check(spec(healthChecks=[{"protocol": "TCP"}]).document, (1,)) is None


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ({"http": {"portIndex": 0, "path": "/c"}}, {"type": "HTTP", "http": {"port": 11, "path": "/c"}}),
        ({"tcp": {"port": 5}}, {"type": "TCP", "tcp": {"port": 5}}),
        (
            {"exec": {"command": {"shell": "true"}}},
            {"type": "COMMAND", "command": {"command": {"shell": True, "value": "true"}}},
        ),
    ],
)
def test_the_general_check(check: dict[str, Any], expected: dict[str, Any]) -> None:
    times = {"delay_seconds": 15.0, "interval_seconds": 60.0, "timeout_seconds": 20.0}
    assert general_check(spec(check=check).document, (11,)) == {**times, **expected}


def test_probes_go_to_the_hosts_port_or_the_named_one() -> None:
    checks = [{"protocol": "HTTP", "portIndex": 1, "path": "/h"}, {"protocol": "TCP", "port": 99, "intervalSeconds": 2}]
    made = spec(healthChecks=checks, portDefinitions=[{"port": 0}, {"port": 0}])
    assert health_probes(made, TASK) == [
        Probe("t", 0, "http", "h0", 31007, "/h", 5.0, 60.0, 20.0),
        Probe("t", 1, "tcp", "h0", 99, "/", 2.0, 2.0, 20.0),
    ]
    assert health_probes(spec(healthChecks=[{"protocol": "MESOS_TCP"}]), TASK) == []


def test_a_port_that_the_host_does_not_have_is_asked_at_the_containers_own_address() -> None:
    container = {"type": "MESOS", "docker": {"image": "i"}, "portMappings": [{"containerPort": 80, "name": "web"}]}
    made = spec(networks=[{"mode": "container", "name": "n"}], container=container, healthChecks=[{"protocol": "HTTP"}])
    (probe,) = health_probes(made, TASK)
    assert (probe.host, probe.port) == ("10.0.0.9", 80)


def test_the_readiness_probe_asks_at_once() -> None:
    check = {"portName": "web", "httpStatusCodesForReady": [200, 204], "protocol": "HTTPS"}
    probe = readiness_probe(
        spec(readinessChecks=[check], portDefinitions=[{"port": 0}, {"port": 0, "name": "web"}]), TASK
    )
    assert probe is not None
    assert (probe.scheme, probe.port, probe.first_s, probe.interval_s) == ("https", 31007, 0.0, 30.0)
    assert probe.passes(204)
    assert not probe.passes(201)
    assert readiness_probe(spec(), TASK) is None


def test_the_checks_travel_with_the_task() -> None:
    command = {"protocol": "COMMAND", "command": {"value": "true"}}
    info = launched(spec(healthChecks=[command], check={"exec": {"command": {"argv": ["/bin/true", "x"]}}}))
    assert info["health_check"]["type"] == "COMMAND"
    assert info["check"]["command"]["command"]["arguments"] == ["/bin/true", "x"]


def test_a_bridge_network_maps_ports() -> None:
    info = launched(spec(**BRIDGE))
    (network,) = info["container"]["network_infos"]
    first, second = network["port_mappings"]
    assert network["name"] == "mesos-bridge"
    assert first["container_port"] == 80
    assert second["container_port"] == second["host_port"], "0 takes the assigned host port"
    variables = {v["name"]: v["value"] for v in info["command"]["environment"]["variables"]}
    assert variables["PORT_80"] == variables["PORT0"] == str(first["host_port"])
    assert variables["PORT_WEB"] == variables["PORT0"]


def test_the_docker_engine_gets_its_own_mappings() -> None:
    container = {**BRIDGE["container"], "type": "DOCKER"}  # type: ignore[dict-item]
    info = launched(spec(networks=BRIDGE["networks"], container=container))
    assert info["container"]["docker"]["network"] == "BRIDGE"
    assert info["container"]["docker"]["port_mappings"][0]["container_port"] == 80


def test_a_mapping_without_host_port_takes_none() -> None:
    container = {"type": "MESOS", "docker": {"image": "i"}, "portMappings": [{"containerPort": 0}]}
    info = launched(spec(networks=[{"mode": "container", "name": "n"}], container=container), ports=())
    assert "ports" not in [resource["name"] for resource in info["resources"]]
    (network,) = info["container"]["network_infos"]
    assert "port_mappings" not in network
    variables = {v["name"]: v["value"] for v in info["command"]["environment"]["variables"]}
    assert 1025 <= int(variables["PORT0"]) <= 65535


def test_a_program_as_executor_gets_the_command_as_words() -> None:
    info = launched(
        spec(executor="/opt/my exec", executorResources={"cpus": 0.5}, fetch=[{"uri": "http://h/x"}], env={"A": "1"})
    )
    assert "command" not in info
    executor = info["executor"]
    assert executor["executor_id"] == {"value": "marathon-t1"}
    assert executor["command"]["value"] == "chmod ug+rx '/opt/my exec' && exec '/opt/my exec' sleep 1000"
    assert executor["command"]["uris"][0]["value"] == "http://h/x"
    assert {r["name"]: r["scalar"]["value"] for r in executor["resources"]} == {"cpus": 0.5, "mem": 32.0, "disk": 10.0}
    assert all(r["allocation_info"] for r in executor["resources"]), "taken out of the offer"
    assert launched(spec(executor="//cmd"))["command"]["value"] == "sleep 1000"


def test_a_secret_variable_is_left_out_as_without_a_plugin() -> None:
    made = spec(env={"KEY": "x"})
    document = {**made.document, "env": {"KEY": "x", "PASSWORD": {"secret": "s"}}, "secrets": {"s": {"source": "/s"}}}
    info = launched(RunSpec(document))
    names = [variable["name"] for variable in info["command"]["environment"]["variables"]]
    assert "KEY" in names
    assert "PASSWORD" not in names


def test_an_executor_of_its_own_needs_room_beside_the_task() -> None:
    given = Offer.from_json(offer(cpus=0.5))
    own = {"executor": "/x", "executorResources": {"cpus": 0.2}}

    def decided(cpus: float, **changes: Any) -> Match | Refusal:
        made = spec(cpus=cpus, **changes)
        return match(made, given, given.resources, [], behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)

    assert isinstance(decided(0.3, **own), Match)
    assert decided(0.4, **own) == Refusal((Reason.INSUFFICIENT_CPUS,))
    assert isinstance(decided(0.4, executorResources={"cpus": 0.2}), Match), "the command executor takes nothing"


def test_credentials_of_an_image_travel_as_a_reference() -> None:
    made = spec(container={"type": "MESOS", "docker": {"image": "i"}})
    container = {"type": "MESOS", "docker": {**made.document["container"]["docker"], "pullConfig": {"secret": "s"}}}
    info = launched(RunSpec({**made.document, "container": container, "secrets": {"s": {"source": "/reg"}}}))
    config = info["container"]["mesos"]["image"]["docker"]["config"]
    assert config == {"type": "REFERENCE", "reference": {"name": "/reg"}}
