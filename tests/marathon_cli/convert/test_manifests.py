"""What a set of files defines, whatever is in them, and where notes and problems are said to stand."""

from __future__ import annotations

import pytest

from marathon_cli.convert.manifests import Manifests, read_manifests, removal_order
from marathon_cli.document.check import Source
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

OWN = """# what runs here
id: /train
cmd: python train.py
---
id: pair
containers: [{name: a}]
--- # an empty one
---
id: nightly
run: {cmd: "true"}
---
id: /team
apps: []
"""
CONFIG = """apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {MODE: fast}
"""
JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  ttlSecondsAfterFinished: 60
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: busybox
        command: ["true"]
        envFrom: [{configMapRef: {name: conf}}]
        resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 64Mi}}
"""


def read(*texts: str, name: str = "file{}.yaml") -> Manifests:
    return read_manifests([Source(name.format(n), text) for n, text in enumerate(texts)], {})


def test_each_document_of_a_file_is_what_its_keys_say() -> None:
    found = read(OWN)
    assert [(one.kind, one.document["id"]) for one in found.all] == [
        ("app", "/train"),
        ("pod", "pair"),
        ("job", "nightly"),
        ("group", "/team"),
    ]
    assert found.notes == []
    assert [one.kind for one in removal_order(found.all)] == ["job", "pod", "app", "group"]
    # Each document stands in its source where it stands in the file.
    assert found.all[2].source.places().of("/id", None).line == 9


def test_a_list_is_one_after_the_other() -> None:
    assert [one.document["id"] for one in read('[{"id": "/a"}, {"id": "/b"}]', name="apps{}.json").all] == ["/a", "/b"]


def test_objects_of_kubernetes_see_each_other_across_files_and_notes_name_their_own() -> None:
    found = read(CONFIG, OWN, "\n\n" + JOB)
    assert [one.kind for one in found.all] == ["app", "pod", "job", "group", "job"]
    run = found.all[-1].document["run"]
    assert (run["env"]["MODE"], run["gpus"]) == ("fast", 1)
    where = "file2.yaml:7: spec.ttlSecondsAfterFinished: not carried over: "
    assert any(line.startswith(where) for line in found.notes), found.notes


@pytest.mark.parametrize(
    "text",
    [
        "foo: 1",
        "id: /a\n---\n\n3\n",
        "",
        CONFIG,
        JOB + "---\n" + JOB.replace("name: c", "nome: c").replace("image: busybox", "image: [x]"),
        "id: /a\n---\nid: [b\n",
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read(text)
    assert str(refused.value) == golden, str(refused.value)
