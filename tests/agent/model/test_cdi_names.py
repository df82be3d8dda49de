"""CDI devices that tasks ask for by a label."""

from __future__ import annotations

import pytest

from mesos_gpu.agent.model.cdi_names import asked, refusal
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.tasks import DEVICES_LABEL
from tests.support.golden import Golden

NIC = "example.com/nic"


def labelled(value: str) -> dict[str, object]:
    return {"labels": {"labels": [{"key": "other"}, {"key": DEVICES_LABEL, "value": value}]}}


def test_names_are_those_of_all_labels_each_once(golden: Golden) -> None:
    both = [labelled(f"{NIC}=0, {NIC}=1"), {}, labelled(f"{NIC}=1 a.b/c=x")]
    assert asked(both) == (f"{NIC}=0", f"{NIC}=1", "a.b/c=x")
    assert asked([{"labels": {"labels": [{"key": DEVICES_LABEL}]}}]) == ()
    with pytest.raises(BadInput) as refused:
        asked([labelled("nic")])
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("value", "kinds", "running"),
    [(f"{NIC}=0", (NIC,), False), (f"{NIC}=0", ("all",), False), ("", (), True)],
)
def test_devices_of_the_kinds_that_an_agent_gives_are_accepted(
    value: str, kinds: tuple[str, ...], running: bool
) -> None:
    assert refusal(labelled(value), kinds, running=running) is None


@pytest.mark.parametrize(
    ("value", "kinds", "running"),
    [
        (f"{NIC}=0", (), False),
        (f"{NIC}=0", ("a.b/c", "a.b/a"), False),
        (f"{NIC}=0", (NIC,), True),
        ("nvidia.com/gpu=all", ("all",), False),
        ("nic", ("all",), False),
    ],
    ids=["none", "others", "running", "gpu", "no name"],
)
def test_devices_that_an_agent_does_not_give_are_refused(
    value: str, kinds: tuple[str, ...], running: bool, golden: Golden
) -> None:
    assert refusal(labelled(value), kinds, running=running) == golden
