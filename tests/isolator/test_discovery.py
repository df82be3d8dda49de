"""The table of Mesos' NvidiaGpuTest FlagValidation and Discovery, and what we added to it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import Gpu, MigInstance
from mesos_gpu.isolator.discovery import discover_gpus
from tests.support.golden import Golden

MACHINE = tuple(
    Gpu(minor=minor, index=index, uuid=f"GPU-{minor}", name="Some GPU") for index, minor in enumerate((1, 0, 2, 3))
)


def discover(
    *, gpus: int | None = None, devices: Sequence[str] | None = None, isolating: bool = True
) -> tuple[Gpu, ...]:
    return discover_gpus(gpus_asked=gpus, devices=devices, isolating=isolating, found=MACHINE)


def minors(gpus: Sequence[Gpu]) -> list[int]:
    return [gpu.minor for gpu in gpus]


def test_discovery_isolation_alone_finds_every_gpu() -> None:
    assert minors(discover()) == [0, 1, 2, 3]


def test_flag_validation_a_no_isolation_and_no_flags_is_no_gpus() -> None:
    assert discover(isolating=False) == ()


def test_flag_validation_b_devices_without_isolation_is_an_error() -> None:
    with pytest.raises(BadFlag, match="--nvidia_gpu_devices: needs 'gpu/nvidia' in --isolation"):
        discover(devices=["0"], isolating=False)


def test_flag_validation_c_gpus_without_isolation_pass_through_unmanaged() -> None:
    assert discover(gpus=100, isolating=False) == ()


def test_flag_validation_d_isolation_alone_is_what_the_driver_counts() -> None:
    assert len(discover()) == len(MACHINE)


def test_flag_validation_e_gpus_0_with_isolation_is_none() -> None:
    assert discover(gpus=0) == ()


def test_flag_validation_f_devices_and_gpus_that_agree_are_those() -> None:
    assert minors(discover(gpus=1, devices=["0"])) == [1], "GPU 0 of nvidia-smi, whatever its device number"


def test_flag_validation_g_devices_without_gpus_is_an_error() -> None:
    with pytest.raises(BadFlag, match="'gpus:2'"):
        discover(devices=["0", "1"])


def test_flag_validation_h_gpus_without_devices_is_an_error(golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        discover(gpus=2)
    assert str(refused.value) == golden


@pytest.mark.parametrize(("gpus", "devices"), [(2, ["0"]), (1, ["0", "1"])])
def test_flag_validation_i_counts_that_differ_are_an_error(gpus: int, devices: list[str], golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        discover(gpus=gpus, devices=devices)
    assert str(refused.value) == golden


def test_flag_validation_j_devices_with_gpus_0_is_an_error() -> None:
    with pytest.raises(BadFlag, match="gpus:0"):
        discover(gpus=0, devices=["0"])


def test_flag_validation_k_twice_the_gpus_of_the_machine_is_an_error(golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        discover(gpus=8, devices=[str(index) for index in range(8)])
    assert str(refused.value) == golden


def test_flag_validation_l_duplicate_ids_are_an_error(golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        discover(gpus=2, devices=["0", "0"])
    assert str(refused.value) == golden


def test_uuid_names_a_gpu_as_well_as_its_index() -> None:
    assert minors(discover(gpus=2, devices=["GPU-3", "1"])) == [0, 3]


def test_index_and_uuid_of_one_gpu_are_a_duplicate() -> None:
    with pytest.raises(BadFlag, match="twice"):
        discover(gpus=2, devices=["0", "GPU-1"])


@pytest.mark.parametrize("device", ["4", "-1", "GPU-9", "", "all", "0x1"])
def test_gpu_that_is_not_there_is_an_error_with_those_that_are(device: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        discover(gpus=1, devices=[device])
    assert str(refused.value) == golden


def test_negative_gpus_are_refused() -> None:
    with pytest.raises(BadFlag, match="-1"):
        discover(gpus=-1, devices=["0"])


def test_machine_without_gpus_has_none_to_discover(golden: Golden) -> None:
    assert discover_gpus(gpus_asked=None, devices=None, isolating=True, found=()) == ()
    with pytest.raises(BadFlag) as refused:
        discover_gpus(gpus_asked=1, devices=["0"], isolating=True, found=())
    assert str(refused.value) == golden


@given(
    gpus=st.none() | st.integers(0, 5),
    devices=st.none() | st.lists(st.sampled_from(["0", "1", "2", "3", "4", "GPU-0", "GPU-2"]), max_size=5),
    isolating=st.booleans(),
)
def test_answer_is_whole_or_refused(gpus: int | None, devices: list[str] | None, isolating: bool) -> None:
    try:
        answer = discover(gpus=gpus, devices=devices, isolating=isolating)
    except BadFlag:
        return
    assert len(set(answer)) == len(answer)
    assert set(answer) <= set(MACHINE)
    if isolating:
        assert len(answer) == (len(MACHINE) if gpus is None else gpus)


def test_mig_instances_are_named_by_uuid_since_they_share_their_gpus_index(golden: Golden) -> None:
    parts = [Gpu(0, 0, f"MIG-{n}", "part", mig=MigInstance("GPU-0", n, 0, ())) for n in range(2)]
    with pytest.raises(BadFlag) as refused:
        discover_gpus(gpus_asked=1, devices=["0"], isolating=True, found=parts)
    assert str(refused.value) == golden
    assert discover_gpus(gpus_asked=1, devices=["MIG-1"], isolating=True, found=parts) == (parts[1],)
