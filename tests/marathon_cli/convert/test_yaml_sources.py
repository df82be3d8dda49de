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

from marathon_cli.convert import accelerators
from marathon_cli.convert.compose import interpolate
from marathon_cli.convert.kubernetes_container import expand
from marathon_cli.convert.whole import convert
from mesos_gpu.errors import BadInput

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
    *("volumes", "networks", "initContainers", "status", "x-train", "imagePullSecrets", "depends_on", "tolerations"),
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
    ("text", "problem"),
    [
        (POD + "    resources: {limits: {nvidia.com/gpu: 0.5}}\n", r"^f:8: .*nvidia.com/gpu: .*not whole"),
        (POD + "    resources: {limits: {cpu: much}}\n", r"^f:8: .*limits.cpu: 'much' is no quantity"),
        (POD + "    image: j\n", "^f:8: image: this key is there twice"),
        (POD + "    args: word\n", "^f:8: .*args: a list was expected"),
        (POD + "    env: [A]\n", "^f:8: .*an object of keys"),
        (POD + "    volumeMounts: [{name: x, mountPath: /x}]\n", "^f:8: .*the pod has no volume 'x'"),
        (POD.replace("    image: i\n", ""), "^f:6: .*image: is missing"),
        (POD.replace("  containers:\n  - name: c\n    image: i\n", "  hostNetwork: true\n"), "there is none"),
        ("a: [", "^f:1:5: not YAML"),
        ("a: b", "no Kubernetes object"),
        ("", "is empty"),
        ("- a", "^f:1: .*an object"),
        ("services: {a: {command: x}}", "^f:1: services.a: image: is missing"),
        ("services: {a: {image: x, ports: ['a:b']}}", "is no port"),
        ("services: {a: {image: x, mem_limit: lots}}", "is no size"),
        ("apiVersion: v1\nkind: Service\n", "nothing in it to run"),
    ],
)
def test_what_cannot_be_right_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        convert(text, "f", environ={})


def test_a_form_that_cannot_hold_it_is_refused() -> None:
    two = (CASES / "deployment-of-two.yaml").read_text()
    with pytest.raises(BadInput, match="several containers"):
        convert(two, "f", environ={}, form="app")
    with pytest.raises(BadInput, match="only a job has"):
        convert((CASES / "cronjob.yaml").read_text(), "f", environ={}, form="app")


def test_json_is_yaml_too_and_a_list_holds_objects() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"image": "i"}]}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, pod]}, indent=1)
    assert [item.document["id"] for item in convert(text, "f", environ={}).documents] == ["/a", "/a"]


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
    pattern = accelerators.model_pattern(accelerator)
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
