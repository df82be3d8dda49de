from __future__ import annotations

from mesos_gpu.gpu.device import DeviceNode, Gpu, Level, Link, MigInstance, Topology


def whole(minor: int, uuid: str = "GPU-x") -> Gpu:
    return Gpu(minor=minor, index=minor, uuid=uuid, name="H200")


def part(minor: int, gpu_instance: int, compute_instance: int, uuid: str) -> Gpu:
    node = DeviceNode(f"/dev/nvidia-caps/nvidia-cap{gpu_instance}", 238, gpu_instance)
    return Gpu(minor, minor, uuid, "part", mig=MigInstance(f"GPU-{minor}", gpu_instance, compute_instance, (node,)))


def test_gpus_are_ordered_by_minor_then_by_instance() -> None:
    ordered = [
        whole(0),
        part(1, 7, 0, "MIG-b"),
        part(1, 7, 1, "MIG-a"),
        part(1, 9, 0, "MIG-0"),
        whole(2, "GPU-a"),
        whole(2, "GPU-b"),
    ]
    assert sorted(reversed(ordered)) == ordered
    assert max(ordered) >= min(ordered)


def test_fields_that_are_not_known_do_not_disturb_the_order() -> None:
    known = Gpu(0, 0, "GPU-x", "H200", memory_mib=1, bus_id="00000000:01:00.0")
    assert not known < whole(0)
    assert not whole(0) < known


def test_pair_that_is_not_known_is_far_apart_and_instances_of_a_gpu_share_a_board() -> None:
    topology = Topology({frozenset(("GPU-1", "GPU-2")): Link(Level.SINGLE_SWITCH, 2)})
    first, second, other = part(1, 7, 0, "MIG-a"), part(1, 9, 0, "MIG-b"), part(2, 7, 0, "MIG-c")
    assert topology.between(first, second) == Link(Level.SAME_BOARD, 0)
    assert topology.between(first, other) == topology.between(other, first) == Link(Level.SINGLE_SWITCH, 2)
    assert topology.between(first, whole(3)) == Link(Level.SYSTEM, 0)
