"""Kubernetes and Compose files: nothing is lost in silence, and what cannot be right is refused with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.convert import gpu_requests
from marathon_cli.convert.kubernetes_container import expand
from marathon_cli.convert.manifests import convert
from marathon_cli.convert.variables import interpolate
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

CASES = Path(__file__).parent / "cases"
DOCUMENTS = [
    (path.name, document)
    for path in sorted(CASES.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document.get("kind") not in ("ConfigMap", "Service")
]
# Names that stand for themselves: labels, variables, services; and what has been noted as a whole.
FREE = {
    *("labels", "nodeSelector", "environment", "data", "annotations", "sysctls", "services", "matchLabels", "selector"),
    *("volumes", "networks", "status", "x-train", "imagePullSecrets", "depends_on", "tolerations"),
}


def objects(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of the objects in a document whose keys mean something."""
    if isinstance(value, dict):
        below = [p for key, child in value.items() if key not in FREE for p in objects(child, (*path, key))]
        services = value.get("services") or {}
        below += [p for key, child in services.items() for p in objects(child, (*path, "services", key))]
        return [path, *below]
    if isinstance(value, list):
        return [p for index, child in enumerate(value) for p in objects(child, (*path, index))]
    return []


@pytest.mark.parametrize(("name", "document"), DOCUMENTS, ids=[name for name, _ in DOCUMENTS])
def test_a_key_that_nobody_knows_is_told_of_wherever_it_stands(name: str, document: Any) -> None:
    assert [path for path in objects(document) if not _is_told_of(document, path)] == []


def _is_told_of(document: Any, path: tuple[Any, ...]) -> bool:
    """Put a key into the object at `path`, and tell whether it is noted, or something that holds it."""
    changed = json.loads(json.dumps(document))
    target = changed
    for step in path:
        target = target[step]
    target["surpriseKey"] = {"with": "a value"}
    notes = convert(yaml.safe_dump(changed), "f", environ={"HOME": "/root"}).notes.all
    told = [note.place.path for note in notes if note.lost]
    holders = [".".join(str(step) for step in path[:length]) for length in range(1, len(path) + 1)]
    return any("surpriseKey" in said or _plain(said) in holders for said in told)


def _plain(path: str) -> str:
    return path.replace("[", ".").replace("]", "")


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: i\n"


@pytest.mark.parametrize(
    "text",
    [
        POD + "    resources: {limits: {nvidia.com/gpu: 0.5}}\n",
        POD + "    resources: {limits: {cpu: much}}\n",
        POD + "    image: j\n",
        POD + "    args: word\n",
        POD + "    env: [A]\n",
        POD + "    volumeMounts: [{name: x, mountPath: /x}]\n",
        POD.replace("    image: i\n", ""),
        POD.replace("  containers:\n  - name: c\n    image: i\n", "  hostNetwork: true\n"),
        "a: [",
        "a: b",
        "",
        "- a",
        "services: {a: {command: x}}",
        "services: {a: {image: x, ports: ['a:b']}}",
        "services: {a: {image: x, mem_limit: lots}}",
        "apiVersion: v1\nkind: Service\n",
    ],
)
def test_what_cannot_be_right_is_refused_with_its_line(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        convert(text, "f", environ={})
    assert str(refused.value) == golden


def test_a_form_that_cannot_hold_it_is_refused(golden: Golden) -> None:
    two = (CASES / "deployment-of-two.yaml").read_text()
    with pytest.raises(BadInput) as refused:
        convert(two, "f", environ={}, form="app")
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        convert((CASES / "cronjob.yaml").read_text(), "f", environ={}, form="app")
    assert str(refused.value) == golden


def test_json_is_yaml_too_and_a_list_holds_objects() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"image": "i"}]}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, pod]}, indent=1)
    assert [item.document["id"] for item in convert(text, "f", environ={}).documents] == ["/a", "/a"]


def test_a_list_of_one_kind_says_it_once() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"image": "i"}]}}
    text = json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [pod]})
    done = convert(text, "f", environ={})
    assert [item.document["id"] for item in done.documents] == ["/a"]
    assert not any(note.lost for note in done.notes.all)
    (lost,) = [n for n in convert(text[:-1] + ', "surprise": 1}', "f", environ={}).notes.all if n.lost]
    assert lost.place.path == "surprise"


CRON = """apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec:
  schedule: "%s"
  jobTemplate: {spec: {backoffLimit: 0, template: {spec: {containers: [{name: a, image: i}]}}}}
"""


@pytest.mark.parametrize(
    ("text", "cron", "zone"),
    [
        ("@daily", "0 0 * * *", None),
        ("@hourly", "0 * * * *", None),
        ("TZ=Europe/Berlin 5 4 * * 1", "5 4 * * 1", "Europe/Berlin"),
        ("CRON_TZ=UTC @weekly", "0 0 * * 0", "UTC"),
    ],
)
def test_short_names_and_zones_of_cron_become_five_fields_and_a_time_zone(text: str, cron: str, zone: str) -> None:
    (made,) = convert(CRON % text, "f", environ={}).documents
    (schedule,) = made.document["schedules"]
    assert (schedule["cron"], schedule.get("timezone")) == (cron, zone)


FIRST = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  initContainers: [%s]
  containers: [%s]
"""
MAIN = "{name: c, image: i, command: [serve, x], resources: {requests: {cpu: 1, memory: 64Mi}}}"


@pytest.mark.parametrize(
    ("first", "main"),
    [
        ("{name: f, image: j, command: [x]}", MAIN),
        ("{name: f, image: i}", MAIN),
        ("{name: f, image: i, command: [x]}", "{name: c, image: i}"),
        ("{name: f, image: i, command: [x]}", f"{MAIN}, {{name: d, image: i}}"),
        ("{name: f, image: i, command: [x], securityContext: {runAsUser: 7}}", MAIN),
    ],
)
def test_a_first_container_that_cannot_be_a_first_step_is_lost_with_the_reason(
    first: str, main: str, golden: Golden
) -> None:
    lost = [note.message for note in convert(FIRST % (first, main), "f", environ={}).notes.all if note.lost]
    assert len(lost) == 1
    assert lost[0] == golden


def test_a_first_container_of_the_same_image_is_the_first_step_of_the_command() -> None:
    first = (
        "{name: f, image: i, command: [get, 'a b'], env: [{name: A, value: '1'}], workingDir: /w, "
        "resources: {requests: {cpu: 2, memory: 1Mi}}}"
    )
    done = convert(FIRST % (first, MAIN), "f", environ={})
    app = done.documents[0].document
    assert app["cmd"] == "(cd /w && env A=1 get 'a b') || exit\nexec serve x"
    assert (app["cpus"], app["mem"]) == (2.0, 64)
    assert not any(note.lost for note in done.notes.all)


def test_a_sidecar_is_a_container_of_the_pod() -> None:
    done = convert(FIRST % ("{name: f, image: j, restartPolicy: Always}", MAIN), "f", environ={})
    assert [item["name"] for item in done.documents[0].document["containers"]] == ["c", "f"]


def test_claims_of_a_set_with_several_containers_are_lost_because_pods_have_none(golden: Golden) -> None:
    text = (CASES / "statefulset.yaml").read_text().replace("      restartPolicy: Always\n", "", 1)
    text = text.replace("        workingDir: /tmp\n", "        restartPolicy: Always\n")
    done = convert(text, "f", environ={})
    assert done.documents[0].form == "pod"
    assert [note.message for note in done.notes.all if note.lost] == golden


def test_what_the_cluster_wrote_into_an_object_is_not_noted() -> None:
    meta = 'metadata: {name: a, annotations: {deployment.kubernetes.io/revision: "1"%s}, uid: u, generation: 2}'
    text = f"apiVersion: apps/v1\nkind: Deployment\n{meta}\nstatus: {{replicas: 1}}\nspec:\n  template:\n    spec:\n"
    text += "      runtimeClassName: nvidia\n      containers: [{name: c, image: i}]\n"
    assert not any(note.lost for note in convert(text % "", "f", environ={}).notes.all)
    text = text.replace("runtimeClassName: nvidia", "runtimeClassName: kata")
    lost = [note.place.path for note in convert(text % ", mine: x", "f", environ={}).notes.all if note.lost]
    assert lost == ["metadata.annotations", "spec.template.spec.runtimeClassName"]


def test_a_service_has_devices_by_their_cdi_names() -> None:
    text = "services: {web: {image: i, devices: [nvidia.com/gpu=0, nvidia.com/gpu=1, example.com/nic=0]}}"
    document = convert(text, "f", environ={}).documents[0].document
    assert (document["gpus"], document["labels"]) == (2, {"MESOS_GPU_DEVICES": "example.com/nic=0"})
    every = convert(text.replace("gpu=1", "gpu=all"), "f", environ={})
    assert every.documents[0].document["gpus"] == 1


def test_a_service_that_is_built_is_named_as_compose_names_it(golden: Golden) -> None:
    done = convert("name: lab\nservices: {Web: {build: ., restart: always}}", "f", environ={})
    assert done.documents[0].document["container"]["docker"]["image"] == "lab-web"
    assert done.notes.lines() == golden


@pytest.mark.parametrize(
    ("text", "kept"),
    [("0755", "755"), ("493", "755"), ("0o644", "644")],
)
def test_files_of_a_config_map_have_their_mode(text: str, kept: str) -> None:
    source = (CASES / "statefulset.yaml").read_text().replace("defaultMode: 0755", f"defaultMode: {text}")
    assert f"chmod {kept} /opt/shards/serve.sh" in convert(source, "f", environ={}).documents[0].document["cmd"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("name: shards-conf\n          default", "name: other\n          default", "is not in this file"),
        ("command: [sh, /opt/shards/serve.sh]", "args: [x]", "can write the files"),
        ("{key: serve.sh, path", "{key: nothing, path", "has no nothing"),
        ("mountPath: /opt/shards}", "mountPath: /opt/shards, subPath: no}", "has no file no"),
        ("    cat /data/begun\n", f"    cat {'x' * 70000}\n", "too large"),
    ],
)
def test_files_of_a_config_map_that_cannot_be_written_are_lost_with_the_reason(old: str, new: str, why: str) -> None:
    source = (CASES / "statefulset.yaml").read_text()
    assert old in source
    notes = convert(source.replace(old, new), "f", environ={}).notes.all
    assert [note for note in notes if note.lost and why in note.message] != []


@pytest.mark.parametrize(
    ("accelerator", "fits", "others"),
    [
        ("nvidia-tesla-k80", ["Tesla-K80"], ["Tesla-K8", "Tesla-K800", "NVIDIA-A100-SXM4-80GB"]),
        ("nvidia-tesla-p4", ["Tesla-P4"], ["Tesla-P40", "Tesla-P100-PCIE-16GB"]),
        ("nvidia-tesla-v100", ["Tesla-V100-SXM2-16GB"], ["Tesla-V1000"]),
        ("nvidia-tesla-a100", ["NVIDIA-A100-SXM4-40GB", "A100-PCIE-40GB"], ["NVIDIA-A100-SXM4-80GB", "NVIDIA-A10"]),
        ("nvidia-a100-80gb", ["NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"], ["NVIDIA-A100-SXM4-40GB"]),
        ("nvidia-l4", ["NVIDIA-L4"], ["NVIDIA-L40", "NVIDIA-L40S"]),
        ("nvidia-h100-80gb", ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"], ["NVIDIA-GH100"]),
        ("nvidia-h200-141gb", ["NVIDIA-H200"], ["NVIDIA-H20", "NVIDIA-H100-80GB-HBM3"]),
        ("nvidia-rtx-pro-6000", ["NVIDIA-RTX-PRO-6000-Blackwell"], ["NVIDIA-RTX-6000-Ada"]),
    ],
)
def test_an_accelerator_type_fits_the_models_that_it_means(
    accelerator: str, fits: list[str], others: list[str]
) -> None:
    pattern = gpu_requests.model_pattern(accelerator)
    assert pattern is not None
    assert [name for name in [*fits, *others] if re.fullmatch(pattern, name)] == fits


@given(st.text(), st.dictionaries(st.sampled_from("AB"), st.text()))
def test_expanding_never_fails_and_leaves_other_text_alone(text: str, variables: dict[str, str]) -> None:
    if "$" not in text:
        assert expand(text, variables) == text
        assert interpolate(text, variables) == (text, [])
    expand(text, variables)
    interpolate(text, variables)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$A-${A}", "1-1"),
        ("${B:-two}${B-two}", "two"),
        ("${NO:-x}${NO-y}", "xy"),
        ("${A:+set}${NO:+set}", "set"),
        ("$$A", "$A"),
        ("${NO:?needed}", "${NO:?needed}"),
    ],
)
def test_compose_variables_are_filled_in_as_compose_does(text: str, found: str) -> None:
    assert interpolate(text, {"A": "1", "B": ""})[0] == found
