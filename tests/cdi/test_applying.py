"""What CDI devices make of a container."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.cdi.applying import Edits, edits_of, is_kind, kind_of, names_in
from mesos_gpu.cdi.reading import Devices, SpecFile, read_devices
from mesos_gpu.errors import BadInput

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
    ("name", "says"),
    [
        ("nic", "'nic' is not a name of a CDI device; write vendor.com/class=name"),
        (f"{NIC}=9", f"there is no CDI device {NIC}=9: of {NIC} there are {NIC}=0, {NIC}=1$"),
        ("a.b/c=x", f"there is no CDI device a.b/c=x: the CDI files of this machine define {NIC}, one.org/only$"),
        ("one.org/only=2", "of one.org/only there is one.org/only=1$"),
    ],
)
def test_a_device_that_there_is_not_is_refused_with_what_there_is(name: str, says: str) -> None:
    there = found(
        spec(NIC, {"0": {"env": ["A=0"]}, "1": {"env": ["A=1"]}}), spec("one.org/only", {"1": {"env": ["A=0"]}})
    )
    with pytest.raises(BadInput, match=says):
        edits_of(there, [name])


def test_the_refusal_says_which_file_is_wrong_and_does_not_list_without_end() -> None:
    many = found(spec(NIC, {f"{n}": {"env": ["A=0"]} for n in range(9)}), {"kind": "?"})
    with pytest.raises(BadInput, match=r"and 4 more; problems: /etc/cdi/1\.json: cdiVersion is missing; .*"):
        edits_of(many, [f"{NIC}=x"])
    with pytest.raises(BadInput, match="define no device"):
        edits_of(found(), [f"{NIC}=x"])


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ({"netDevices": [{}]}, f"{NIC}=0 has netDevices, which containers of this agent are not given"),
        (
            {"mounts": [{"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"}]},
            f"{NIC}=0 mounts a tmpfs at /x; here only bind mounts are made",
        ),
    ],
)
def test_what_is_not_applied_is_refused(edits: dict[str, Any], says: str) -> None:
    newest = {**spec(NIC, {"0": edits}), "cdiVersion": "1.1.0"}
    with pytest.raises(BadInput, match=says):
        edits_of(found(newest), [f"{NIC}=0"])


def test_names_and_kinds() -> None:
    assert kind_of(f"{NIC}=a:1") == NIC
    assert names_in(f" {NIC}=0,{NIC}=1  {NIC}=0 ") == [f"{NIC}=0", f"{NIC}=1"]
    assert [is_kind(text) for text in (NIC, "nic", f"{NIC}=0", "a/b/c", "all")] == [True, False, False, False, False]
