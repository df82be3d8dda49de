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
    ("value", "kinds", "running", "says"),
    [
        (f"{NIC}=0", (NIC,), False, None),
        (f"{NIC}=0", ("all",), False, None),
        ("", (), True, None),
        (f"{NIC}=0", (), False, f"{NIC}=0 is not given to tasks by this agent, but none; its --cdi_devices says"),
        (f"{NIC}=0", ("a.b/c", "a.b/a"), False, "but only those of a.b/a, a.b/c;"),
        (f"{NIC}=0", (NIC,), True, "The executor runs already and cannot be given CDI devices"),
        ("nvidia.com/gpu=all", ("all",), False, "nvidia.com/gpu=all is a GPU; tasks ask for GPUs by their number"),
        ("nic", ("all",), False, f"The label {DEVICES_LABEL}: 'nic' is not a name of a CDI device"),
    ],
)
def test_what_an_agent_does_not_give_is_refused_in_words(
    value: str, kinds: tuple[str, ...], running: bool, says: str | None
) -> None:
    words = refusal(labelled(value), kinds, running=running)
    assert words is None if says is None else words is not None and says in words
