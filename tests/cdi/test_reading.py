"""CDI files of any vendor: what consumers refuse, and which file counts."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.cdi.reading import SpecFile, least_version, read_devices, spec_problems

EDITS = {"deviceNodes": [{"path": "/dev/thing"}]}


def spec(*names: str, **more: Any) -> dict[str, Any]:
    devices = [{"name": name, "containerEdits": EDITS} for name in names or ("one",)]
    return {"cdiVersion": "0.5.0", "kind": "vendor.com/thing", "devices": devices, **more}


def with_edits(**edits: Any) -> dict[str, Any]:
    return {**spec(), "devices": [{"name": "one", "containerEdits": edits}]}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "is not an object"),
        (spec(cdiVersion="2.0"), "cdiVersion 2.0 is not known"),
        (spec(cdiVersion=""), "cdiVersion is missing"),
        (spec(kind="thing"), "is not vendor/class"),
        (spec(kind="1vendor/thing"), "is not vendor/class"),
        (spec(devices=[]), "there is no device"),
        (spec("-one"), "device name '-one' is none"),
        (spec(devices=["one"]), "device name '' is none"),
        (spec("one", "one"), "device one is there twice"),
        (spec(colour="red"), "has a field 'colour'"),
        (with_edits(), "changes nothing in a container"),
        (with_edits(env=["A"]), "env 'A' is not NAME=VALUE"),
        (with_edits(env=["A=1"], wish=1), "has a field 'wish'"),
        (with_edits(deviceNodes=[{"path": "dev/x"}]), "no absolute path"),
        (with_edits(deviceNodes=[{"path": "/dev/x", "permissions": "rx"}]), "are not of r, w and m"),
        (with_edits(mounts=[{"hostPath": "/a"}]), "needs hostPath and containerPath"),
        (with_edits(hooks=[{"hookName": "later", "path": "/p"}]), "a hook needs"),
        (with_edits(hooks=[{"hookName": "createRuntime", "path": "p"}]), "a hook needs"),
        (spec(containerEdits=[1]), "containerEdits is not an object"),
        (spec("0", cdiVersion="0.3.0"), "too low for what is in it, which needs 0.5.0"),
        (spec(annotations={}), "needs 0.6.0"),
    ],
)
def test_what_consumers_refuse(document: Any, problem: str) -> None:
    assert any(problem in found for found in spec_problems(document)), list(spec_problems(document))


@pytest.mark.parametrize(
    ("document", "version"),
    [
        (spec(), "0.3.0"),
        (with_edits(mounts=[{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]), "0.4.0"),
        (spec("0"), "0.5.0"),
        (with_edits(deviceNodes=[{"path": "/dev/x", "hostPath": "/dev/y"}]), "0.5.0"),
        (spec(kind="vendor.com/thing.sub"), "0.6.0"),
        (with_edits(additionalGids=[1]), "0.7.0"),
        (with_edits(intelRdt={"closID": "a"}), "0.7.0"),
        (with_edits(netDevices=[{}]), "1.1.0"),
    ],
)
def test_the_lowest_version_that_has_it_all(document: Any, version: str) -> None:
    assert least_version(document) == version


def test_a_later_folder_wins_and_equals_are_a_conflict() -> None:
    low, high = SpecFile("/etc/cdi/a.json", 0, spec("one", "two")), SpecFile("/run/cdi/a.json", 1, spec("one"))
    found = read_devices([low, high])
    assert {name: device.path for name, device in found.devices.items()} == {
        "vendor.com/thing=one": "/run/cdi/a.json",
        "vendor.com/thing=two": "/etc/cdi/a.json",
    }
    assert found.problems == []
    twice = read_devices([low, SpecFile("/etc/cdi/b.json", 0, spec("two"))])
    assert "vendor.com/thing=two" not in twice.devices
    assert twice.problems == [
        "vendor.com/thing=two is in /etc/cdi/a.json and in /etc/cdi/b.json: nobody can use it",
    ]
    wrong = read_devices([SpecFile("/etc/cdi/c.json", 0, "no yaml")])
    assert wrong.problems == ["/etc/cdi/c.json: is not an object"]


def test_permissions_may_be_none_at_all() -> None:
    assert list(spec_problems(with_edits(deviceNodes=[{"path": "/dev/x", "permissions": "none"}]))) == []
