"""What CDI devices make of a container."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.cdi.applying import Edits, edits_of, is_kind, kind_of, names_in
from mesos_gpu.cdi.reading import Devices, SpecFile, read_devices
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

NIC = "example.com/nic"


def spec(kind: str, devices: dict[str, dict[str, Any]], common: dict[str, Any] | None = None) -> dict[str, Any]:
    listed = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    return {"cdiVersion": "0.5.0", "kind": kind, "devices": listed, "containerEdits": common or {}}


def found(*documents: Any) -> Devices:
    return read_devices(SpecFile(f"/etc/cdi/{n}.json", 0, document) for n, document in enumerate(documents))


def test_common_edits_come_once_and_later_ones_replace_those_of_their_name() -> None:
    hook = {"hookName": "createRuntime", "path": "/bin/a"}
    nics = spec(
        NIC,
        {
            "0": {"env": ["A=0", "B=0"], "deviceNodes": [{"path": "/dev/nic"}], "hooks": [hook]},
            "1": {"env": ["A=1"], "deviceNodes": [{"path": "/dev/nic", "hostPath": "/dev/nic1"}]},
        },
        {
            "env": ["ALL=x=y"],
            "hooks": [{**hook, "path": "/bin/common"}],
            "mounts": [
                {"hostPath": "/deep", "containerPath": "/usr/lib/nic/"},
                {"hostPath": "/h", "containerPath": "/usr", "type": "bind"},
            ],
        },
    )
    edits = edits_of(found(nics), [f"{NIC}=0", f"{NIC}=1", f"{NIC}=0"])
    assert edits.environment == {"ALL": "x=y", "A": "1", "B": "0"}
    assert edits.nodes == ({"path": "/dev/nic", "hostPath": "/dev/nic1"},)
    assert [mount["containerPath"] for mount in edits.mounts] == ["/usr", "/usr/lib/nic/"], (
        "what is outside comes first"
    )
    assert [hook["path"] for hook in edits.hooks["createRuntime"]] == ["/bin/common", "/bin/a"]
    assert edits_of(found(), []) == Edits()


@pytest.mark.parametrize(
    "name",
    [
        "nic",
        f"{NIC}=9",
        "a.b/c=x",
        "one.org/only=2",
    ],
)
def test_a_device_that_there_is_not_is_refused_with_what_there_is(name: str, golden: Golden) -> None:
    there = found(
        spec(NIC, {"0": {"env": ["A=0"]}, "1": {"env": ["A=1"]}}), spec("one.org/only", {"1": {"env": ["A=0"]}})
    )
    with pytest.raises(BadInput) as refused:
        edits_of(there, [name])
    assert str(refused.value) == golden


def test_the_refusal_says_which_file_is_wrong_and_does_not_list_without_end(golden: Golden) -> None:
    many = found(spec(NIC, {f"{n}": {"env": ["A=0"]} for n in range(9)}), {"kind": "?"})
    with pytest.raises(BadInput) as refused:
        edits_of(many, [f"{NIC}=x"])
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        edits_of(found(), [f"{NIC}=x"])
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    "edits",
    [{"netDevices": [{}]}, {"mounts": [{"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"}]}],
    ids=["netDevices", "mounts"],
)
def test_what_is_not_applied_is_refused(edits: dict[str, Any], golden: Golden) -> None:
    newest = {**spec(NIC, {"0": edits}), "cdiVersion": "1.1.0"}
    with pytest.raises(BadInput) as refused:
        edits_of(found(newest), [f"{NIC}=0"])
    assert str(refused.value) == golden


def test_names_and_kinds() -> None:
    assert kind_of(f"{NIC}=a:1") == NIC
    assert names_in(f" {NIC}=0,{NIC}=1  {NIC}=0 ") == [f"{NIC}=0", f"{NIC}=1"]
    assert [is_kind(text) for text in (NIC, "nic", f"{NIC}=0", "a/b/c", "all")] == [True, False, False, False, False]
