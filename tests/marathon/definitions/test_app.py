"""The acceptance cases of Marathon's app validation, by their numbers, and what the canonical form looks like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.definitions.app import INVALID_JSON, AppRules, read_app
from tests.support.golden import Golden
from tests.support.places import EXAMPLES

RULES = AppRules(features=frozenset({"gpu_resources"}))
IMAGE = {"docker": {"image": "i"}}
HTTP = {"protocol": "MESOS_HTTP"}
NAMED = [{"port": 0, "name": "http-api"}]


def app(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "cmd": "sleep 9", **fields}


def read(document: object, rules: AppRules = RULES) -> dict[str, Any]:
    return read_app(document, rules)


def refusal(document: object, rules: AppRules = RULES) -> InvalidApp:
    with pytest.raises(InvalidApp) as caught:
        read_app(document, rules)
    return caught.value


def test_the_smallest_app_gets_every_default() -> None:
    found = read({"id": "a", "cmd": "sleep 9"})
    expected = {"id": "/a", "cpus": 1, "mem": 128, "disk": 0, "gpus": 0, "instances": 1, "networks": [{"mode": "host"}]}
    assert {key: found[key] for key in expected} == expected
    assert found["portDefinitions"] == [{"port": 0, "name": "default", "protocol": "tcp", "labels": {}}]
    assert found["upgradeStrategy"] == {"minimumHealthCapacity": 1, "maximumOverCapacity": 1}
    assert found["role"] == "*"


REFUSED_VALUES = [
    ("5", {"cmd": "x"}, "/id", "error.path.missing"),
    ("6", app(id="Foo"), "/id", "error.pattern"),
    ("6", app(id="a_b"), "/id", "error.pattern"),
    ("6", app(id="-a"), "/id", "error.pattern"),
    ("6", app(id="a-"), "/id", "error.pattern"),
    ("6", app(id="a\n"), "/id", "error.pattern"),
    ("6", app(id=""), "/id", "error.minLength"),
    ("9", app(cpus="1"), "/cpus", "error.expected.jsnumber"),
    ("10", app(cpus=0), "/cpus", "error.min"),
    (
        "15",
        app(container={"docker": {"image": "i", "network": "wifi"}}),
        "/container/docker/network",
        "error.unknown.enum.literal",
    ),
    ("24", app(acceptedResourceRoles=[]), "/acceptedResourceRoles", "error.minLength"),
    ("28", app(readinessChecks=[{}, {}]), "/readinessChecks", "error.maxLength"),
    ("29", app(upgradeStrategy={"minimumHealthCapacity": 1.2}), "/upgradeStrategy/minimumHealthCapacity", "error.max"),
    ("40", app(gpus=0.5), "/gpus", "error.expected.int"),
    ("40", app(gpus=-1), "/gpus", "error.min"),
    ("40", app(gpus="1"), "/gpus", "error.expected.jsnumber"),
    ("40", app(gpus=True), "/gpus", "error.expected.jsnumber"),
    ("40", app(gpus=2**31), "/gpus", "error.expected.int"),
    ("40", app(gpus=float("nan")), "/gpus", "error.expected.int"),
    ("labels", app(labels={"n": 1}), "/labels/n", "error.expected.jsstring"),
    ("arrays", app(healthChecks=[{}, {"protocol": "ICMP"}]), "/healthChecks(1)/protocol", "error.unknown.enum.literal"),
    ("arrays", app(constraints=[["hostname"]]), "/constraints(0)", "error.minLength"),
    ("env", app(env={"A": {}}), "/env/A/secret", "error.path.missing"),
    ("no object", [1], "/", "error.expected.jsobject"),
]


@pytest.mark.parametrize(("case", "document", "path", "code"), REFUSED_VALUES)
def test_a_bad_value_is_refused_in_the_first_stage_with_marathons_code(
    case: str, document: object, path: str, code: str
) -> None:
    error = refusal(document)
    assert error.stage == INVALID_JSON
    assert [(problem.path, problem.code) for problem in error.problems] == [(path, code)]


REFUSED_APPS = [
    ("7", app(id="/x/versions"), "/id"),
    ("8", app(id="/"), "/id"),
    ("11", app(args=["x"]), "/"),
    ("12", {"id": "a"}, "/"),
    ("13", {"id": "a", "container": {"type": "MESOS"}}, "/"),
    ("13", app(container={"type": "DOCKER"}), "/container/docker"),
    ("13", app(container={}), "/container/docker"),
    ("16", app(container={"docker": {"image": "i", "network": "NONE"}}), "/container/docker/network"),
    (
        "1.6",
        app(container={"docker": {"image": "i", "network": "HOST"}}, networks=[{"mode": "host"}]),
        "/container/docker/network",
    ),
    ("18", app(networks=[{"mode": "container"}]), "/networks(0)"),
    ("18", app(networks=[{}]), "/networks(0)"),
    (
        "19",
        app(
            networks=[{"name": "a"}, {"name": "b"}],
            container={"type": "MESOS", "portMappings": [{"containerPort": 80, "hostPort": 0}]},
        ),
        "/container/portMappings(0)",
    ),
    ("21", app(ports=[1, 1]), "/ports"),
    ("21", app(portDefinitions=[{"port": 1}, {"port": 1}]), "/portDefinitions"),
    ("22", app(uris=["http://h/a"], fetch=[{"uri": "http://h/b"}]), "/uris"),
    ("24", app(acceptedResourceRoles=["slave_public"]), "/acceptedResourceRoles"),
    ("25", app(constraints=[["hostname", "UNIQUE", "x"]]), "/constraints(0)"),
    ("25", app(constraints=[["rack", "MAX_PER", "x"]]), "/constraints(0)"),
    ("25", app(constraints=[["rack", "LIKE", "["]]), "/constraints(0)"),
    ("25", app(constraints=[["rack", "LIKE"]]), "/constraints(0)"),
    ("look-around", app(constraints=[["rack", "LIKE", "(?=a)a"]]), "/constraints(0)"),
    ("a back reference", app(constraints=[["rack", "UNLIKE", r"(a)\1"]]), "/constraints(0)"),
    ("flags", app(constraints=[["rack", "LIKE", "(?s)a"]]), "/constraints(0)"),
    ("a long expression", app(constraints=[["rack", "LIKE", "a" * 1001]]), "/constraints(0)"),
    ("25", app(constraints=[["rack", "IS", "a"], ["rack", "FOO"]]), "/constraints(1)"),
    ("26", app(healthChecks=[{"portIndex": 3}], ports=[0]), "/healthChecks(0)"),
    ("27", app(healthChecks=[HTTP, {**HTTP, "path": "/b"}]), "/healthChecks"),
    ("28", app(readinessChecks=[{"timeoutSeconds": 30}], portDefinitions=NAMED), "/readinessChecks(0)/timeoutSeconds"),
    ("28", app(readinessChecks=[{"portName": "x"}]), "/readinessChecks(0)/portName"),
    ("30", app(labels={"MARATHON_SINGLE_INSTANCE_APP": "true"}, instances=2), "/instances"),
    ("31", app(unreachableStrategy={"inactiveAfterSeconds": 10, "expungeAfterSeconds": 5}), "/unreachableStrategy"),
    ("32", app(resourceLimits={"mem": 64}), "/resourceLimits/mem"),
    ("38", app(gpus=1, container={**IMAGE, "type": "DOCKER"}), "/"),
    ("38", app(gpus=1, container=IMAGE), "/"),
    ("role", app(role="other"), "/role"),
    ("secrets", app(env={"A": {"secret": "s"}}, secrets={"s": {"source": "x"}}), "/"),
    (
        "bridge",
        app(networks=[{"mode": "container/bridge"}], portDefinitions=[{"port": 1}], container=IMAGE),
        "/portDefinitions",
    ),
    ("volume", app(container={"type": "MESOS", "volumes": [{"containerPath": "p"}]}), "/container/volumes(0)"),
]


@pytest.mark.parametrize(("case", "document", "path"), REFUSED_APPS)
def test_a_contradictory_app_is_refused_in_the_second_stage_at_its_path(case: str, document: object, path: str) -> None:
    error = refusal(document)
    assert error.stage == "Object is not valid"
    assert [problem.path for problem in error.problems] == [path]


ACCEPTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("7", app(id="/versions/x"), {"id": "/versions/x"}),
    ("13", {"id": "a", "container": {"type": "MESOS", **IMAGE}}, {}),
    ("13", {"id": "a", "container": {"type": "DOCKER", **IMAGE}}, {}),
    ("15", app(container={"docker": {"image": "i", "network": "host"}}), {"networks": [{"mode": "host"}]}),
    ("20", app(ports=[8080]), {"portDefinitions": [{"port": 8080, "protocol": "tcp", "labels": {}}]}),
    ("21", app(ports=[0, 0]), {"portDefinitions": [{"port": 0, "protocol": "tcp", "labels": {}}] * 2}),
    ("21", app(portDefinitions=[]), {"portDefinitions": []}),
    ("24", app(acceptedResourceRoles=["*"]), {"acceptedResourceRoles": ["*"]}),
    ("30", app(labels={"MARATHON_SINGLE_INSTANCE_APP": "true"}), {"instances": 1}),
    ("32", app(resourceLimits={"mem": "Unlimited"}), {"resourceLimits": {"mem": "unlimited"}}),
    ("33", app(cpu=2), {"cpus": 1}),
    ("35", app(id="/prod/web", dependencies=["../db"]), {"dependencies": ["/prod/db"]}),
    ("36", app(gpus=1), {"gpus": 1}),
    ("39", app(gpus=1, container={"type": "mesos", **IMAGE}), {"gpus": 1}),
    ("40", app(gpus=1.0), {"gpus": 1}),
    ("null", app(gpus=None, container=None), {"gpus": 0}),
    ("readOnly", app(tasksRunning="nonsense", version=3), {}),
    ("3.3", app(constraints=[["rack", "group_by"]]), {"constraints": [["rack", "GROUP_BY"]]}),
    ("Java", app(constraints=[["rack", "LIKE", r"(?<name>a++)\p{L}[[a]b]"]]), {}),
    ("upgrade", app(upgradeStrategy={"minimumHealthCapacity": 0}), {"instances": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "document", "shown"), ACCEPTED)
def test_a_good_app_is_accepted_in_its_canonical_form(
    case: str, document: dict[str, Any], shown: dict[str, Any]
) -> None:
    found = read(document)
    assert {key: found[key] for key in shown} == shown
    assert not {"ports", "uris", "ipAddress", "cpu", "tasksRunning", "version"} & found.keys()


def test_half_an_upgrade_strategy_is_completed() -> None:
    strategy = read(app(upgradeStrategy={"minimumHealthCapacity": 0}))["upgradeStrategy"]
    assert strategy == {"minimumHealthCapacity": 0, "maximumOverCapacity": 1}


def test_a_whole_float_becomes_an_integer() -> None:
    assert type(read(app(gpus=1.0))["gpus"]) is int


def test_a_container_with_docker_and_no_type_is_docker() -> None:
    container = read(app(container=IMAGE))["container"]
    assert container["type"] == "DOCKER"
    assert container["docker"] == {"image": "i", "forcePullImage": False, "privileged": False, "parameters": []}


def test_a_mesos_container_shows_no_settings_of_the_docker_engine() -> None:
    container = read(app(container={"type": "MESOS", **IMAGE}))["container"]
    assert container["docker"] == {"image": "i", "forcePullImage": False}


def test_bridge_mappings_get_a_host_port() -> None:
    docker = {"image": "i", "network": "BRIDGE", "portMappings": [{"containerPort": 80}]}
    found = read(app(container={"docker": docker}, requirePorts=True))
    mapping = {"containerPort": 80, "hostPort": 0, "servicePort": 0, "protocol": "tcp", "labels": {}}
    assert found["networks"] == [{"mode": "container/bridge"}]
    assert found["container"]["portMappings"] == [mapping]
    assert "portDefinitions" not in found
    assert found["requirePorts"] is False


def test_mappings_left_over_beside_host_networking_are_dropped() -> None:
    docker = {"image": "i", "network": "HOST", "portMappings": [{"containerPort": 80}]}
    assert "portMappings" not in read(app(container={"docker": docker}))["container"]


def test_an_ip_address_becomes_a_container_network_with_mappings() -> None:
    address = {"networkName": "blue", "discovery": {"ports": [{"number": 80, "name": "web", "protocol": "tcp"}]}}
    found = read(app(ipAddress=address))
    assert found["networks"] == [{"mode": "container", "name": "blue"}]
    assert found["container"]["type"] == "MESOS"
    assert found["container"]["portMappings"][0]["containerPort"] == 80


def test_an_unnamed_container_network_takes_the_default_name() -> None:
    rules = AppRules(default_network_name="dcos")
    assert read(app(networks=[{"mode": "container"}]), rules)["networks"] == [{"mode": "container", "name": "dcos"}]


@pytest.mark.parametrize(
    ("uri", "extract"), [("http://h/a.tgz", True), ("http://h/a.txt", False), ("http://h/a.tgz?x=1", True)]
)
def test_a_uri_is_unpacked_when_it_names_an_archive(uri: str, extract: bool) -> None:
    assert read(app(uris=[uri]))["fetch"] == [{"uri": uri, "extract": extract, "executable": False, "cache": False}]


def test_gpus_need_the_feature() -> None:
    error = refusal(app(gpus=1), AppRules(features=frozenset()))
    assert [problem.path for problem in error.problems] == ["/"]
    assert "--enable_features gpu_resources" in error.problems[0].code


def test_both_gpu_problems_are_reported_together() -> None:
    error = refusal(app(gpus=1, container=IMAGE), AppRules(features=frozenset()))
    assert [problem.path for problem in error.problems] == ["/", "/"]


def test_gpus_with_docker_suggest_the_mesos_type(golden: Golden) -> None:
    (problem,) = refusal(app(gpus=1, container=IMAGE)).problems
    assert problem.suggestion == golden


def test_slave_public_is_explained_where_it_is_not_accepted() -> None:
    (problem,) = refusal(app(acceptedResourceRoles=["slave_public", "*"])).problems
    assert "--mesos_role slave_public" in str(problem.suggestion)


@pytest.mark.parametrize("name", ["simple-gpu-test", "docker-gpu-test"])
def test_the_dcos_documents_are_accepted_by_a_marathon_of_that_role(name: str) -> None:
    document = json.loads((EXAMPLES / f"{name}.json").read_text())
    found = read(document, AppRules(mesos_role="slave_public"))
    assert found["id"] == f"/{name}"
    assert found["gpus"] == 1
    assert found["role"] == "slave_public"


def test_an_app_in_a_group_may_have_the_groups_role() -> None:
    assert read(app(id="/slave_public/a".replace("_", "-"), role="slave-public"))["role"] == "slave-public"


def test_a_group_that_enforces_its_role_gives_it_to_its_apps() -> None:
    rules = AppRules(enforced_groups=frozenset({"prod"}))
    assert read(app(id="/prod/a"), rules)["role"] == "prod"
    assert [problem.path for problem in refusal(app(id="/prod/a", role="*"), rules).problems] == ["/role"]


def test_what_depends_on_unknown_settings_is_left_to_the_server() -> None:
    unknown = AppRules(known=False, features=frozenset())
    assert read(app(gpus=1, acceptedResourceRoles=["slave_public"], networks=[{"mode": "container"}]), unknown)


def test_every_problem_of_a_stage_is_reported() -> None:
    assert {problem.path for problem in refusal(app(cpus="1", gpus=0.5, mem=-1)).problems} == {"/cpus", "/gpus", "/mem"}


def test_the_input_document_is_not_changed() -> None:
    document = app(container={"docker": {"image": "i", "network": "BRIDGE"}}, uris=["http://h/a"], gpus=0)
    before = json.dumps(document)
    read(document)
    assert json.dumps(document) == before


TEXT = st.text("ab/.(*-[{ \n\0é", max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "id",
    "cmd",
    "args",
    "container",
    "networks",
    "ports",
    "portDefinitions",
    "ipAddress",
    "healthChecks",
    "check",
]
FIELDS += [
    "gpus",
    "constraints",
    "env",
    "upgradeStrategy",
    "unreachableStrategy",
    "acceptedResourceRoles",
    "fetch",
    "uris",
]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_is_either_read_or_refused_with_problems(fields: dict[str, Any]) -> None:
    found: object = None
    problems: tuple[Problem, ...] = ()
    try:
        found = read({**app(), **fields})
    except InvalidApp as error:
        problems = error.problems
    assert bool(found) != bool(problems)
    assert all(problem.path.startswith("/") for problem in problems)


@pytest.mark.parametrize(("case", "document", "shown"), ACCEPTED)
def test_reading_a_canonical_app_again_changes_nothing(case: str, document: dict[str, Any], shown: object) -> None:
    once = read(document)
    assert read(once) == once
