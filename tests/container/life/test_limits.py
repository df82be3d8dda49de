"""A container is held to its processors, its memory and its processes, and is killed however it was stopped.

Each under either runtime, which tell the kernel the same in ways of their own; `./run test pure-v2` asks the same of a
machine that has cgroups of version 2 alone.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from mesos_gpu.container.life.opening import usual_hardening
from tests.support.container.box import Box, freeze
from tests.support.container.waiting import until

pytestmark = pytest.mark.root

BUSY = "echo began; while :; do :; done"


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_who_makes_processes_without_end_meets_a_limit(box: Box, runtime: str) -> None:
    """The container's own: the machine has room for all others."""
    hardening = replace(usual_hardening(), pids_limit=40)
    containerizer = await box.open(runtimes=(runtime,), hardening=hardening)
    # The shell that cannot fork ends by that; the others, of which there is one at least, run on.
    bomb = "(for i in $(seq 100); do sleep 1000 & done) 2>refused; echo full; exec sleep 1000"
    await containerizer.launch(box.config("bomb", shell=bomb))
    await asyncio.to_thread(box.until_said, "bomb", "full")
    refused = box.said("bomb", "refused").lower()
    assert "fork" in refused, refused
    assert 30 <= (await containerizer.usage("bomb"))["processes"] <= 40
    await containerizer.destroy("bomb")


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_who_computes_without_end_is_throttled_with_cfs_quota_alone(box: Box, runtime: str) -> None:
    """A tenth of a processor: by `cpu.max`, or `cpu.cfs_quota_us` of version 1."""
    for name, quota in (("held", True), ("free", False)):
        containerizer = await box.open(runtimes=(runtime,), cfs_quota=quota)
        await containerizer.launch(replace(box.config(name, shell=BUSY), cpus_milli=100))
        await asyncio.to_thread(box.until_said, name, "began")
        usage = await containerizer.usage(name)
        while usage["cpus_user_time_secs"] + usage["cpus_system_time_secs"] < 0.1:
            await asyncio.sleep(0.05)
            usage = await containerizer.usage(name)
        throttled, periods = usage.get("cpus_nr_throttled", 0), usage.get("cpus_nr_periods", 0)
        # It takes 10 ms of each 100, so a tenth of a second takes ten of them, and it is stopped in nearly all.
        assert (throttled >= 4, periods >= 5) == (quota, quota), usage
        await containerizer.destroy(name)
        await containerizer.close()


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_who_takes_too_much_memory_ends_and_is_told_why(box: Box, runtime: str) -> None:
    containerizer = await box.open(runtimes=(runtime,))
    await containerizer.launch(box.config("hog", shell="tail /dev/zero; sleep 60", mem_bytes=32 << 20))
    end = await containerizer.wait("hog")
    assert end.oom
    assert (end.message or "").startswith("Memory limit exceeded: Requested: 32MB")


@pytest.mark.parametrize(("runtime", "grace_s"), [("crun", 0.0), ("runc", 0.05)])
async def test_a_container_that_was_frozen_can_be_killed(box: Box, runtime: str, grace_s: float) -> None:
    """Its GPU was gone until somebody thawed it."""
    containerizer = await box.open(runtimes=(runtime,))
    await containerizer.launch(box.config("c", shell="exec sleep 1000", gpus=1))
    stopped = freeze(box.cgroups_root, "c")
    await asyncio.to_thread(until, stopped)
    assert (stopped(), box.isolator.free) == (True, 3)
    await containerizer.kill("c", grace_s)
    await asyncio.wait_for(containerizer.wait("c"), 60)
    assert box.isolator.free == 4
