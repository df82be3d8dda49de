"""The acceptance cases of Marathon's app validation, by their numbers, and what the canonical form looks like."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.definitions.app import INVALID_JSON, AppRules, read_app
from mesos_gpu.marathon.definitions.app_ids import canonical_id, name_problem, parent_id, top_group
from mesos_gpu.marathon.definitions.cron import cron_problem, next_time, zone_problem
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects
from mesos_gpu.marathon.definitions.ports import ServicePorts, service_ports, service_ports_of, take_ports, wishes
from mesos_gpu.marathon.definitions.runspec import restarted, versioned
from mesos_gpu.marathon.definitions.timestamps import later_than, seconds_of, timestamp
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden
from tests.support.marathon.builders import V0, ranges, spec
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


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?(\.[a-z0-9]{1,3})?", fullmatch=True)
IDS = st.lists(st.sampled_from(["", ".", ".."]) | NAMES, max_size=6).map("/".join)


@pytest.mark.parametrize("text", ["foo", "/foo", "/foo/", "//foo//", "./foo", "x/../foo"])
def test_slashes_and_dots_make_no_difference(text: str) -> None:
    assert canonical_id(text) == "/foo"


def test_a_relative_id_counts_from_its_base() -> None:
    assert canonical_id("../db", "/prod/web") == "/prod/db"
    assert canonical_id("/db", "/prod/web") == "/db"


def test_going_up_from_the_root_stays_there() -> None:
    assert canonical_id("../../x") == "/x"


@given(IDS, IDS)
def test_a_canonical_id_is_absolute_and_stays_as_it_is(text: str, base: str) -> None:
    found = canonical_id(text, canonical_id(base))
    assert found.startswith("/")
    assert "//" not in found
    assert canonical_id(found, "/elsewhere") == found
    assert canonical_id(f"./{text}/" if text[:1] != "/" else f"{text}/", canonical_id(base)) == found


@given(st.text("aB0-._/ é\n", min_size=1, max_size=12))
def test_a_name_outside_marathons_alphabet_is_refused_and_any_other_accepted(text: str) -> None:
    names = [name for name in text.split("/") if name not in ("", ".", "..")]
    fine = all(re.fullmatch("[a-z0-9.-]+", name) and not re.search(r"(^|\.)[-.]|[-.](\.|$)", name) for name in names)
    if fine:
        assert canonical_id(text).startswith("/")
    else:
        with pytest.raises(InvalidApp, match=r"^/id: "):
            canonical_id(text)


def test_an_id_of_many_slashes_is_judged_quickly() -> None:
    with pytest.raises(InvalidApp):
        canonical_id("/" * 10_000 + "!")


def test_a_refused_id_comes_with_one_that_would_do(golden: Golden) -> None:
    with pytest.raises(InvalidApp) as caught:
        canonical_id("My_App")
    assert caught.value.problems[0].suggestion == golden


@pytest.mark.parametrize("app_id", ["/", "/a/restart", "/tasks", "/a/versions"])
def test_names_of_the_api_are_no_app_names(app_id: str) -> None:
    assert name_problem(app_id) is not None


def test_groups_of_an_id() -> None:
    assert (parent_id("/a"), parent_id("/a/b")) == ("/", "/a")
    assert (top_group("/a"), top_group("/a/b/c")) == (None, "a")


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


V1 = "2024-01-01T00:00:00.000Z"


def test_a_change_of_instances_is_a_scaling() -> None:
    new = versioned({**spec().definition, "instances": 3}, V1, spec())
    assert new.document["versionInfo"] == {"lastScalingAt": V1, "lastConfigChangeAt": V0}
    assert new.config_version == V0


def test_any_other_change_is_of_the_configuration() -> None:
    new = versioned({**spec().definition, "instances": 3, "mem": 64}, V1, spec())
    assert new.document["versionInfo"] == {"lastScalingAt": V1, "lastConfigChangeAt": V1}


def test_a_restart_makes_everything_outdated() -> None:
    assert restarted(spec(), V1).config_version == V1
    assert restarted(spec(), V1).definition == spec().definition


def test_names_of_tasks_are_paths_backwards() -> None:
    assert spec("/prod/web").task_name == "web.prod"


@given(st.integers(0, 4_000_000_000_000))
def test_times_are_read_back_to_the_millisecond(milliseconds: int) -> None:
    assert round(seconds_of(timestamp(milliseconds / 1000)) * 1000) == milliseconds


@given(st.lists(st.integers(1_700_000_000_000, 1_700_000_000_010), min_size=2))
def test_versions_always_grow(times: list[int]) -> None:
    versions: list[str] = []
    for milliseconds in times:
        versions.append(later_than(versions[-1] if versions else None, milliseconds / 1000))
    assert versions == sorted(set(versions))


ROLES = ("slave_public", "*")


def bag(*documents: dict[str, Any]) -> Resources:
    return Resources.from_json(documents)


def definitions(*ports: int, **changes: Any) -> dict[str, Any]:
    return {
        "networks": [{"mode": "host"}],
        "portDefinitions": [{"port": port, "protocol": "tcp"} for port in ports],
        **changes,
    }


def test_any_port_will_do_unless_ports_are_required() -> None:
    asked = wishes(definitions(10001, 10002))
    found = take_ports(asked, bag(ranges("ports", (31000, 31003))), ROLES, pick=3)
    assert found is not None
    assert found[0] == (31003, 31000)
    assert found[1].ports == ((31000, 31000), (31003, 31003))


def test_required_ports_must_be_in_the_offer() -> None:
    asked = wishes(definitions(31002, 0, requirePorts=True))
    found = take_ports(asked, bag(ranges("ports", (31001, 31002))), ROLES, pick=1)
    assert found is not None
    assert found[0] == (31002, 31001)
    assert take_ports(asked, bag(ranges("ports", (31003, 31009))), ROLES, pick=0) is None


def test_ports_keep_the_role_they_are_reserved_for() -> None:
    usable = bag(ranges("ports", (1000, 1000), role="slave_public"), ranges("ports", (2000, 2000)))
    found = take_ports(wishes(definitions(1, 2)), usable, ROLES, pick=0)
    assert found is not None
    assert {(r.role, r.amount) for r in found[1]} == {
        ("slave_public", ((1000, 1000),)),
        ("*", ((2000, 2000),)),
    }


def test_an_app_without_ports_takes_none() -> None:
    assert take_ports((), Resources(), ROLES, pick=7) == ((), Resources())


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), max_size=5),
    st.integers(0, 8),
    st.integers(0, 2**64),
)
def test_chosen_ports_are_offered_and_distinct(pairs: list[tuple[int, int]], count: int, pick: int) -> None:
    usable = bag(*(ranges("ports", (begin, begin + size)) for begin, size in pairs))
    offered = {port for begin, end in usable.ports for port in range(begin, end + 1)}
    found = take_ports(wishes(definitions(*[0] * count)), usable, ROLES, pick)
    if found is None:
        assert count > len(offered)
    else:
        chosen, taken = found
        assert len(set(chosen)) == count
        assert set(chosen) <= offered
        assert usable.contains(taken)


def test_service_ports_are_the_lowest_free_ones() -> None:
    app = service_ports(spec(portDefinitions=[{"port": 0}, {"port": 10001}, {"port": 0}]).document, None, {10000})
    assert [d["port"] for d in app["portDefinitions"]] == [10002, 10001, 10003]


def test_an_update_keeps_the_service_port() -> None:
    before = service_ports(spec().document, None, {10000, 10001})
    after = service_ports(spec().document, before, set())
    assert [d["port"] for d in after["portDefinitions"]] == [10002]


def test_required_ports_are_not_replaced_by_service_ports() -> None:
    app = service_ports(definitions(0, requirePorts=True), None, set())
    assert [d["port"] for d in app["portDefinitions"]] == [0]


def test_no_service_port_left_is_an_error() -> None:
    with pytest.raises(ValueError, match="10000 to 20000"):
        service_ports(spec().document, None, set(range(10000, 20001)))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(1, 5), max_size=3)), max_size=8))
def test_service_ports_that_were_counted_once_are_those_of_the_others(apps: list[tuple[str, list[int]]]) -> None:
    documents = [(app_id, definitions(*ports)) for app_id, ports in apps]
    counted = ServicePorts(documents[:3])
    for app_id, document in documents[3:]:
        counted.add(app_id, document)
    for asking in "abcd":
        others = {port for app_id, document in documents if app_id != asking for port in service_ports_of(document)}
        assert counted.of_others(asking) == others


LABELS = {"tier": "web", "env": "prod", "odd key": "a,b"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("tier", True),
        ("nope", False),
        ("tier==web", True),
        ("tier == db", False),
        ("tier!=db", True),
        ("nope!=db", False),
        ("tier in (web, db)", True),
        ("tier in (db)", False),
        ("tier notin (db)", True),
        ("nope notin (db)", False),
        ("tier==web,env!=dev", True),
        ("tier==web, env==dev", False),
        (r"odd\ key==a\,b", True),
    ],
)
def test_selectors(text: str, selected: bool) -> None:
    assert selects(parse_selector(text), LABELS) is selected


@pytest.mark.parametrize("text", ["((", "a b", "a=b", "a in", "a in ()", "==b", "a in (b"])
def test_what_is_not_a_selector(text: str) -> None:
    with pytest.raises(InvalidApp, match=re.escape(text)):
        parse_selector(text)


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]
EXPRESSIONS = ["* * * * *", "*/20 * * * *", "30 2 * * *", "0 0 1 * *", "15 */6 * * 1-5", "5 4 * * sun", "59 23 31 12 *"]


def seconds(text: str) -> float:
    return datetime.fromisoformat(text + ":00+00:00").timestamp()


def after(expression: str, zone: str, start: str, count: int) -> list[str]:
    found, at_s = [], seconds(start)
    for _ in range(count):
        at = next_time(expression, zone, at_s)
        assert at is not None
        at_s = at
        found.append(datetime.fromtimestamp(at, timezone.utc).isoformat()[5:16])
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "start", "times"),
    [
        ("30 2 * * *", "UTC", "2026-03-28T12:00", ["03-29T02:30", "03-30T02:30"]),
        ("0 9 * * 1", "America/New_York", "2026-07-01T00:00", ["07-06T13:00", "07-13T13:00"]),
        # In spring, 02:30 is skipped: the moment of the skip, once.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["03-29T01:00", "03-30T00:30"]),
        # In autumn, 02:30 comes twice: the first of them.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25T00:30", "10-26T01:30"]),
        # What runs at any hour continues through both.
        ("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45",
         ["10-25T00:00", "10-25T00:30", "10-25T01:00", "10-25T01:30", "10-25T02:00"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15", ["03-29T00:30", "03-29T01:00", "03-29T01:30"]),
        # A change of half an hour, and a day that never was.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T23:00", ["10-03T15:30", "10-04T15:15"]),
        ("15 0 * * *", "Pacific/Apia", "2011-12-28T12:00", ["12-29T10:15", "12-30T10:00", "12-30T10:15"]),
    ],
)  # fmt: skip
def test_times_are_those_of_the_clock_in_the_zone(expression: str, zone: str, start: str, times: list[str]) -> None:
    assert after(expression, zone, start, len(times)) == times


def test_some_times_never_come() -> None:
    assert next_time("0 0 30 2 *", "UTC", 0.0) is None


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "* * * * * *", "@daily", "61 * * * *", "a b c d e", "*/0 * * * *"]
)
def test_a_bad_expression_is_told(expression: str) -> None:
    assert cron_problem(expression)


def test_good_expressions_and_zones_are_accepted() -> None:
    assert [cron_problem(expression) for expression in EXPRESSIONS] == [None] * len(EXPRESSIONS)
    assert [zone_problem(zone) for zone in ZONES] == [None] * len(ZONES)
    assert all(zone_problem(zone) for zone in ("", "X/Y", "../etc/passwd", "/etc/passwd", "Europe"))


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.integers(0, 2**31))
def test_the_next_time_is_after_and_nothing_is_between(expression: str, zone: str, start: int) -> None:
    found = next_time(expression, zone, float(start))
    assert found is not None
    assert found > start
    middle = (found + start) / 2
    if middle < found:
        assert next_time(expression, zone, middle) == found


def test_a_schedule_is_no_longer_than_one_that_lists_everything(golden: Golden) -> None:
    ranges = (range(60), range(24), range(1, 32), range(1, 13), range(7))
    everything = " ".join(",".join(map(str, values)) for values in ranges)
    assert cron_problem(everything) is None
    assert next_time(everything, "UTC", 0.0) == 60.0
    # Reading it takes Marathon's loop a second for each time that is looked for.
    assert cron_problem("1" + ",1" * 20_000 + " * * * *") == golden
