"""Apps, pods and jobs: what each form can say of a container, and what is noted because it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from marathon_cli.convert.manifests import convert
from marathon_cli.convert.writing import Converted, Form
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

POD = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  restartPolicy: %s
  containers:
  - {name: c, image: i, %s}
"""


def made(container: str, form: Form | None = None, restart: str = "Always") -> tuple[Converted, list[str]]:
    """Convert a pod of one container with these keys beside its image; return the document and the notes."""
    done = convert(POD % (restart, container), "f", environ={}, form=form)
    (document,) = done.documents
    return document, done.notes.lines()


def checks(container: str) -> Any:
    return made(container)[0].document.get("healthChecks")


PORTS = "ports: [{name: web, containerPort: 80}, {containerPort: 53, protocol: UDP}]"
NUMBERS = {
    "intervalSeconds": 10,
    "timeoutSeconds": 1,
    "maxConsecutiveFailures": 3,
    "gracePeriodSeconds": 0,
    "delaySeconds": 0,
}


@pytest.mark.parametrize(
    ("probe", "in_app", "in_pod"),
    [
        (
            "{exec: {command: [test, -f, /a b]}}",
            {"protocol": "COMMAND", "command": {"value": "test -f '/a b'"}},
            {"exec": {"command": {"shell": "test -f '/a b'"}}},
        ),
        (
            "{tcpSocket: {port: web}}",
            {"protocol": "MESOS_TCP", "port": 80},
            {"tcp": {"endpoint": "web"}},
        ),
        (
            "{httpGet: {port: 80, path: /well, scheme: HTTPS}}",
            {"protocol": "MESOS_HTTPS", "path": "/well", "port": 80},
            {"http": {"endpoint": "web", "path": "/well", "scheme": "HTTPS"}},
        ),
        (
            "{httpGet: {port: '53'}}",
            {"protocol": "MESOS_HTTP", "path": "/", "port": 53},
            {"http": {"endpoint": "port1", "path": "/", "scheme": "HTTP"}},
        ),
    ],
)
def test_a_probe_is_a_health_check_of_each_form(probe: str, in_app: dict[str, Any], in_pod: dict[str, Any]) -> None:
    container = f"{PORTS}, livenessProbe: {probe}"
    assert checks(container) == [{**in_app, **NUMBERS}]
    pod, _ = made(container, "pod")
    assert pod.document["containers"][0]["healthCheck"] == {**in_pod, **NUMBERS}


def test_a_probe_of_a_port_that_the_container_does_not_name_is_noted(golden: Golden) -> None:
    for form in ("app", "pod"):
        document, notes = made(f"{PORTS}, livenessProbe: {{tcpSocket: {{port: other}}}}", form)
        assert "healthChecks" not in document.document
        assert not any("healthCheck" in container for container in document.document.get("containers", []))
        assert notes == golden


def test_how_long_a_start_may_take_is_the_grace_of_the_health_check() -> None:
    alive = "livenessProbe: {exec: {command: [x]}}"
    starts = "startupProbe: {exec: {command: [x]}, initialDelaySeconds: 5, periodSeconds: 2, failureThreshold: 10}"
    (check,) = checks(f"{alive}, {starts}")
    assert check["gracePeriodSeconds"] == 25
    document, notes = made(starts)
    assert "healthChecks" not in document.document
    assert any("startupProbe" in note for note in notes)


@pytest.mark.parametrize(
    ("probe", "readiness"),
    [
        (
            "{httpGet: {port: web, path: /up}, periodSeconds: 2, timeoutSeconds: 5}",
            [
                {
                    "name": "readiness",
                    "protocol": "HTTP",
                    "path": "/up",
                    "portName": "web",
                    "intervalSeconds": 6,
                    "timeoutSeconds": 5,
                }
            ],
        ),
        ("{exec: {command: [x]}}", None),
        ("{httpGet: {port: other}}", None),
        ("{grpc: {port: 80}}", None),
    ],
)
def test_a_readiness_probe_over_http_is_a_readiness_check(probe: str, readiness: Any) -> None:
    document, notes = made(f"{PORTS}, readinessProbe: {probe}")
    assert document.document.get("readinessChecks") == readiness
    assert any("readinessProbe" in note for note in notes) == (readiness is None)


@pytest.mark.parametrize(
    ("container", "written"),
    [
        ("command: [serve], args: [x]", {"command": {"argv": ["serve", "x"]}, "overrideEntrypoint": True}),
        ("args: [x]", {"command": {"argv": ["x"]}, "overrideEntrypoint": False}),
        ("command: [serve], workingDir: /w", {"command": {"shell": "cd /w && exec serve"}}),
        ("tty: true", None),
    ],
)
def test_the_program_of_a_pods_container_says_whether_it_replaces_the_images(container: str, written: Any) -> None:
    document, _ = made(container, "pod")
    assert document.document["containers"][0].get("exec") == written


def test_a_folder_to_work_in_is_noted_where_the_program_is_the_images_own(golden: Golden) -> None:
    for form in ("app", "pod"):
        document, notes = made("workingDir: /w, args: [x]", form)
        assert notes == golden
    assert document.document["containers"][0].get("exec") is None


def test_one_container_goes_into_a_pod_that_says_all_that_an_app_does() -> None:
    text = (
        "services: {web: {image: i, user: '7', shm_size: 64m, labels: {a: b}, stop_grace_period: 9s, restart: always,"
        " pull_policy: always, ports: ['80:80'], volumes: ['/srv:/srv:ro', '/srv:/again'],"
        " deploy: {replicas: 2, mode: global, placement: {constraints: [node.labels.disk==ssd]}}}}"
    )
    done = convert(text, "f", environ={}, form="pod")
    (pod,) = (document for _, document in done.documents)
    (container,) = pod["containers"]
    assert pod["scaling"] == {"kind": "fixed", "instances": 2}
    assert (pod["user"], pod["labels"], pod["linuxInfo"]["ipcInfo"]["shmSize"]) == ("7", {"a": "b"}, 64)
    assert pod["scheduling"]["placement"]["constraints"] == [
        {"fieldName": "hostname", "operator": "UNIQUE"},
        {"fieldName": "disk", "operator": "IS", "value": "ssd"},
    ]
    assert pod["volumes"] == [{"name": "srv", "host": "/srv"}]
    assert container["volumeMounts"] == [
        {"name": "srv", "mountPath": "/srv", "readOnly": True},
        {"name": "srv", "mountPath": "/again"},
    ]
    assert container["image"]["forcePull"] is True
    assert container["lifecycle"] == {"killGracePeriodSeconds": 9}


def test_what_a_job_cannot_say_is_noted(golden: Golden) -> None:
    text = (
        "services: {a: {image: i, restart: 'no', shm_size: 64m, ports: ['80:80'], healthcheck: {test: x},"
        " user: '7', deploy: {mode: global, placement: {constraints: [node.labels.disk==ssd]}}}}"
    )
    done = convert(text, "f", environ={})
    (job,) = (document for _, document in done.documents)
    assert job["run"]["placement"]["constraints"] == [{"attribute": "disk", "operator": "IS", "value": "ssd"}]
    assert job["run"]["user"] == "7"
    notes = "\n".join(note.message for note in done.notes.all if note.lost)
    assert notes == golden


def test_containers_that_end_are_started_again_in_a_pod_which_is_noted(golden: Golden) -> None:
    text = POD % ("Never", "args: [x]") + "  - {name: d, image: i}\n"
    done = convert(text, "f", environ={})
    assert done.documents[0].form == "pod"
    assert done.notes.lines() == golden


@pytest.mark.parametrize("form", ["app", "pod"])
def test_a_schedule_wants_a_job(form: Form, golden: Golden) -> None:
    cron = (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: '@daily'\n"
        "  jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: i}]}}}}\n"
    )
    with pytest.raises(BadInput) as refused:
        convert(cron, "f", environ={}, form=form)
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("name", "id_"),
    [("Web_Server", "/web-server"), ("a.b", "/a.b"), ("--", "/unnamed")],
)
def test_a_name_that_marathon_does_not_allow_becomes_one_that_it_does(name: str, id_: str) -> None:
    done = convert(f"services: {{{name}: {{image: i, restart: always}}}}", "f", environ={})
    assert done.documents[0].document["id"] == id_
    assert any(f"its id is {id_}: " in note.message for note in done.notes.all) == (id_ != f"/{name}")


@pytest.mark.parametrize(
    ("affinity", "constraint", "noted"),
    [
        ("{key: disk, operator: In, values: [ssd, nvme]}", ["disk", "LIKE", "ssd|nvme"], "--attributes"),
        ("{key: disk, operator: NotIn, values: [a.b]}", ["disk", "UNLIKE", r"a\.b"], "--attributes"),
        ("{key: nvidia.com/gpu.count, operator: Exists}", ["gpu_count", "LIKE", ".*"], None),
        ("{key: nvidia.com/gpu.count, operator: DoesNotExist}", ["gpu_count", "UNLIKE", ".*"], None),
        ("{key: nvidia.com/gpu.product, operator: In, values: ['A 100']}", ["gpu_model", "LIKE", r"A\ 100"], None),
        ("{key: nvidia.com/gpu.memory, operator: Gt, values: ['1']}", None, "constraints have no operator Gt"),
        ("{key: cloud.google.com/gke-nodepool, operator: In, values: [x]}", None, "agents have no such attribute"),
        ("{key: kubernetes.io/os, operator: In, values: [linux]}", None, None),
        (
            "{key: cloud.google.com/gke-accelerator, operator: In, values: [nvidia-tesla-t4, nvidia-l4]}",
            ["gpu_model", "LIKE", "(?i)(.*[^a-z0-9])?t4([^a-z0-9].*)?|(.*[^a-z0-9])?l4([^a-z0-9].*)?"],
            None,
        ),
    ],
)
def test_what_a_pod_wants_of_its_node_is_a_constraint(affinity: str, constraint: Any, noted: str | None) -> None:
    terms = f"nodeSelectorTerms: [{{matchExpressions: [{affinity}]}}]"
    text = POD % ("Always", "args: [x]")
    text += f"  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{{terms}}}}}}}\n"
    done = convert(text, "f", environ={})
    assert done.documents[0].document.get("constraints") == ([constraint] if constraint else None)
    messages = [note.message for note in done.notes.all if "memory" not in note.message]
    assert any(noted in message for message in messages) if noted else messages == []
