"""MIG instances made and destroyed by NVML, on a libnvidia-ml.so.1 that divides GPUs as an A100 does."""

from __future__ import annotations

import pytest

from mesos_gpu.gpu.mig_models import MODELS
from tests.support.golden import Golden
from tests.support.nvml_program import Program, shown

pytestmark = pytest.mark.slow

A100 = {"count": 1, "gpu.0.name": "NVIDIA A100-SXM4-40GB", "gpu.0.mig": 1}
PLAN = """
from mesos_gpu.errors import MesosGpuError
from mesos_gpu.gpu.mig_device import apply
from mesos_gpu.gpu.mig_layout import plan, read_wanted
from mesos_gpu.gpu.nvml import open_mig_device

def places(device):
    return sorted([one.place.start, one.place.profile, one.used] for one in device.instances())

def divide(division, holders=None):
    with open_mig_device("0", holders) as device:
        made = plan(device.profiles, device.instances(), read_wanted(division))
        try:
            apply(device, made.destroy, made.create)
        except MesosGpuError as error:
            show(str(error))
        show(places(device))
"""


def test_the_profiles_are_those_of_the_model_with_their_places(program: Program) -> None:
    text = PLAN + "with open_mig_device('0') as device: show([asdict(one) for one in device.profiles])"
    (found,) = shown(program(text, A100))
    expected = [
        {"name": one.name, "id": one.id, "size": one.size, "starts": list(one.starts), "most": one.most}
        for one in MODELS["A100-40GB"]
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_instances_are_made_and_the_driver_lists_them_as_devices(program: Program) -> None:
    text = (
        PLAN
        + """
divide("3g.20gb,2g.10gb,1g.5gb")
import pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
parts = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot) for slot in range(3)]
show([pynvml.nvmlDeviceGetGpuInstanceId(part) for part in parts])
"""
    )
    made, ids = shown(program(text, A100))
    assert made == [[0, "3g.20gb", None], [4, "2g.10gb", None], [6, "1g.5gb", None]]
    assert sorted(ids) == [1, 2, 3]


def test_an_instance_with_a_process_stays_and_idle_ones_give_way(program: Program, golden: Golden) -> None:
    answers = A100 | {
        "gpu.0.slot.0": "1:0:19:2:1",
        "gpu.0.slot.0.process.0": "4711:100:C",
        "gpu.0.slot.1": "2:0:19:4:1",
    }
    (made,) = shown(program(PLAN + "divide('3g.20gb,1g.5gb')", answers))
    assert made == [[2, "1g.5gb", golden], [4, "3g.20gb", None]]


def test_an_instance_that_a_container_holds_is_in_use_without_a_process(program: Program) -> None:
    answers = A100 | {"gpu.0.slot.0": "1:0:9:4:4"}
    uuid = "MIG-00000000-57b0-5bb0-8000-000000000000"
    (made,) = shown(program(PLAN + f"divide('4g.20gb', {{{uuid!r}: 'task train'}})", answers))
    assert made == [[0, "4g.20gb", None], [4, "3g.20gb", "task train"]]


def test_a_step_that_fails_leaves_the_gpu_as_it_was(program: Program, golden: Golden) -> None:
    answers = A100 | {
        "gpu.0.slot.0": "1:0:19:0:1",
        "gpu.0.slot.1": "2:0:19:1:1",
        "gpu.0.create_error": 999,
        "gpu.0.create_error_at": 4,
    }
    said, left = shown(program(PLAN + "divide('2x3g.20gb')", answers))
    assert said == golden
    assert left == [[0, "1g.5gb", None], [1, "1g.5gb", None]]


def test_a_process_that_begins_meanwhile_is_not_ended(program: Program, golden: Golden) -> None:
    text = (
        PLAN
        + """
with open_mig_device("0") as device:
    made = plan(device.profiles, device.instances(), read_wanted("7g.40gb"))
    change(gpu__0__slot__1__process__0="9:1:C")
    try:
        apply(device, made.destroy, made.create)
    except MesosGpuError as error:
        show(str(error))
    show(places(device))
"""
    )
    answers = A100 | {"gpu.0.slot.0": "1:0:19:0:1", "gpu.0.slot.1": "2:0:19:1:1"}
    said, left = shown(program(text, answers))
    assert said == golden
    assert left == [[0, "1g.5gb", None], [1, "1g.5gb", golden]]


@pytest.mark.parametrize(
    "answers",
    [
        {"count": 1},
        {"count": 1, "gpu.0.mig": 0},
        {"count": 0},
        {"init": 9},
    ],
)
def test_a_gpu_that_cannot_be_divided_is_told(program: Program, answers: dict[str, object], golden: Golden) -> None:
    text = PLAN + "try:\n    with open_mig_device('0'): pass\nexcept MesosGpuError as error: show(str(error))"
    (said,) = shown(program(text, answers))
    assert said == golden
