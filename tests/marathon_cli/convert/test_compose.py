"""Compose files: a key that means something here is in the document, another is noted with its place."""

from __future__ import annotations

from typing import Any

import pytest

from marathon_cli.convert.manifests import Conversion, convert
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden


def service(body: str, **environ: str) -> Conversion:
    """Convert a Compose file with one service, whose keys beside the image are `body`."""
    return convert(f"services: {{a: {{image: i, restart: always, {body}}}}}", "f", environ=environ)


def app(body: str, **environ: str) -> dict[str, Any]:
    (made,) = service(body, **environ).documents
    assert made.form == "app"
    return made.document


def lost(body: str, **environ: str) -> list[tuple[str, str]]:
    """Return the places and messages of what is not carried over."""
    return [(note.place.path, note.message) for note in service(body, **environ).notes.all if note.lost]


@pytest.mark.parametrize(
    ("body", "key", "value"),
    [
        ("command: [run, $WHAT]", "args", ["run", "this"]),
        ("entrypoint: python, command: train.py", "cmd", "exec python train.py"),
        ("user: '1000:100'", "user", "1000"),
        ("tty: true", "tty", True),
        ("stop_grace_period: 1m30s", "taskKillGracePeriodSeconds", 90),
        ("scale: 3", "instances", 3),
        ("deploy: {replicas: 0}, scale: 3", "instances", 0),
        ("cpus: 2, mem_limit: 1g", "cpus", 2.0),
        ("cpus: 2, deploy: {resources: {limits: {cpus: '4'}}}", "resourceLimits", None),
        ("deploy: {resources: {limits: {cpus: '4'}, reservations: {cpus: '1'}}}", "resourceLimits", {"cpus": 4.0}),
        ("mem_reservation: 64m", "resourceLimits", {"mem": "unlimited"}),
        ("mem_reservation: 64m, mem_limit: 1g", "resourceLimits", {"mem": 1024}),
        ("labels: [a=1, b]", "labels", {"a": "1", "b": ""}),
        ("labels: {a: $WHAT}", "labels", {"a": "this"}),
        ("deploy: {mode: global}", "constraints", [["hostname", "UNIQUE"]]),
        ("deploy: {placement: {constraints: [node.hostname != one]}}", "constraints", [["hostname", "UNLIKE", "one"]]),
        ("deploy: {placement: {constraints: [node.labels.disk==ssd]}}", "constraints", [["disk", "IS", "ssd"]]),
    ],
)
def test_a_key_of_a_service_is_said_in_the_app(body: str, key: str, value: object) -> None:
    assert app(body, WHAT="this").get(key) == value


@pytest.mark.parametrize(
    ("body", "gpus"),
    [
        ("gpus: 2", 2),
        ("gpus: all", 1),
        ("gpus: [{count: 2}, {driver: nvidia, device_ids: ['4']}]", 3),
        ("gpus: [{driver: amd, count: 2}]", None),
        ("devices: [/dev/nvidia0, '/dev/nvidia1:/dev/nvidia1', /dev/nvidiactl]", 2),
        ("devices: [/dev/fuse]", None),
        ("runtime: nvidia", 1),
        ("runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: '0,2,3'}", 3),
        ("runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: none}", None),
        ("environment: {NVIDIA_VISIBLE_DEVICES: all}", None),
    ],
)
def test_each_way_of_asking_for_gpus_is_counted(body: str, gpus: int | None) -> None:
    document = app(body)
    assert document.get("gpus") == gpus
    assert "NVIDIA_VISIBLE_DEVICES" not in document.get("env", {})


def test_what_a_request_for_gpus_may_do_is_a_variable_of_the_driver() -> None:
    document = app("gpus: [{count: 1, capabilities: [gpu, utility, video]}]")
    assert document["env"] == {"NVIDIA_DRIVER_CAPABILITIES": "utility,video"}


def test_an_app_with_gpus_gives_them_up_before_its_next_version_takes_them() -> None:
    assert app("gpus: 1")["upgradeStrategy"] == {"minimumHealthCapacity": 0.0, "maximumOverCapacity": 0.0}
    assert "upgradeStrategy" not in app("tty: true")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("gpus: [{driver: amd, count: 2}]", "services.a.gpus[0].driver"),
        ("devices: [/dev/fuse]", "services.a.devices[0]"),
        ("runtime: runsc", "services.a.runtime"),
        ("ipc: host", "services.a.ipc"),
        ("links: [b]", "services.a.links"),
        ("volumes: [{type: volume, source: nvidia_driver_1, target: /usr/local/nvidia}]", "services.a.volumes[0]"),
        ("volumes: [/scratch]", "services.a.volumes[0]"),
        ("environment: {TOKEN: }", "services.a.environment.TOKEN"),
        ("environment: [TOKEN]", "services.a.environment[0]"),
        ("deploy: {placement: {constraints: [node.id == x]}}", "services.a.deploy.placement.constraints[0]"),
    ],
)
def test_what_has_no_counterpart_is_noted_where_it_stands(body: str, place: str) -> None:
    assert [path for path, _ in lost(body)] == [place]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("container_name: other", "not other"),
        ("profiles: [debug]", "profiles"),
        ("command: [run, $WHERE]", "WHERE is not set"),
        ("restart: 'on-failure:3'", "number of tries cannot be limited"),
        ("deploy: {mode: global}", "number of machines"),
    ],
)
def test_what_is_not_quite_the_same_is_to_be_looked_at(body: str, message: str) -> None:
    text = f"services: {{a: {{image: i, {body}}}}}"
    notes = convert(text, "f", environ={}).notes.all
    assert [note for note in notes if not note.lost and message in note.message] != []


@pytest.mark.parametrize(
    ("body", "volume"),
    [
        ("'/mnt/data:/data:ro'", {"containerPath": "/data", "hostPath": "/mnt/data", "mode": "RO"}),
        (
            "{type: bind, source: $DIR, target: /data, read_only: true, bind: {create_host_path: true}}",
            {"containerPath": "/data", "hostPath": "/srv", "mode": "RO"},
        ),
        (
            "{type: tmpfs, target: /var/cache, tmpfs: {size: 1g}}",
            {"containerPath": "/var/cache", "hostPath": "var-cache", "mode": "RW"},
        ),
    ],
)
def test_a_folder_of_the_machine_or_an_empty_one_is_a_volume(body: str, volume: dict[str, str]) -> None:
    assert app(f"volumes: [{body}]", DIR="/srv")["container"]["volumes"] == [volume]


@pytest.mark.parametrize(
    ("body", "definitions"),
    [
        ("ports: ['80/udp']", [{"port": 80, "protocol": "udp", "name": "port0"}]),
        (
            "ports: [{target: 80, published: 8080, name: web, mode: host}], expose: ['9000']",
            [{"port": 80, "protocol": "tcp", "name": "web"}, {"port": 9000, "protocol": "tcp", "name": "port1"}],
        ),
    ],
)
def test_ports_are_those_that_it_listens_on(body: str, definitions: list[dict[str, Any]]) -> None:
    assert app(body)["portDefinitions"] == definitions


@pytest.mark.parametrize(
    ("check", "command"),
    [
        ("test: curl -f http://localhost/", "curl -f http://localhost/"),
        ("test: [CMD-SHELL, 'test $$(id -u) = 0']", "test $(id -u) = 0"),
        ("test: [CMD, test, -f, '/a b']", "test -f '/a b'"),
    ],
)
def test_a_health_check_is_a_command(check: str, command: str) -> None:
    body = f"healthcheck: {{{check}, interval: 5s, timeout: 2s, retries: 4, start_period: 1m, start_interval: 1s}}"
    (made,) = app(body)["healthChecks"]
    assert made == {
        "protocol": "COMMAND",
        "command": {"value": command},
        "intervalSeconds": 5,
        "timeoutSeconds": 2,
        "maxConsecutiveFailures": 4,
        "gracePeriodSeconds": 60,
        "delaySeconds": 0,
    }


@pytest.mark.parametrize("check", ["disable: true, test: x", "test: [NONE]", "test: []"])
def test_a_health_check_that_is_switched_off_is_none(check: str) -> None:
    assert "healthChecks" not in app(f"healthcheck: {{{check}}}")


@pytest.mark.parametrize(
    ("life", "form", "restart"),
    [
        ('restart: "no"', "job", "NEVER"),
        ("restart: on-failure", "job", "ON_FAILURE"),
        ("deploy: {restart_policy: {condition: none}}", "job", "NEVER"),
        ("deploy: {restart_policy: {condition: on-failure}}", "job", "ON_FAILURE"),
        ("restart: unless-stopped", "app", None),
        ("tty: true", "app", None),
    ],
)
def test_what_ends_for_good_is_a_job(life: str, form: str, restart: str | None) -> None:
    (made,) = convert(f"services: {{a: {{image: i, {life}}}}}", "f", environ={}).documents
    assert made.form == form
    assert made.document.get("run", {}).get("restart", {}).get("policy") == restart


def test_services_that_depend_on_others_name_them_as_they_are_called_here() -> None:
    text = "{%sservices: {a: {image: i, depends_on: %s}, b: {image: i}}}"
    for needed in ("[b]", "{b: {condition: service_healthy}}"):
        for project, ids in (("name: lab, ", ["/lab/b", "/lab/a"]), ("", ["/b", "/a"])):
            needs, first = convert(text % (project, needed), "f", environ={}).documents[::-1]
            assert [first.document["id"], needs.document["id"]] == ids
            assert needs.document["dependencies"] == ids[:1]


def test_an_image_is_pulled_each_time_where_that_is_asked_for() -> None:
    assert app("pull_policy: always")["container"]["docker"]["forcePullImage"] is True


@pytest.mark.parametrize(
    "body",
    [
        'command: "say \'so"',
        "gpus: some",
        "gpus: [{count: some}]",
        "gpus: 'count=some'",
        "scale: many",
        "ports: ['80-70:1']",
        "deploy: {placement: {constraints: [here]}}",
        "command: {a: b}",
        "? [a]\n: b",
        "<<: 7",
    ],
)
def test_what_cannot_be_right_is_refused_where_it_stands(body: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        service(body)
    assert str(refused.value) == golden
