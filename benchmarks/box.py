"""What a box costs that has nothing to do: how soon it is ready, what memory and processor it holds, also with tasks.

    ./run bench box [--ups 5] [--idle 20] [--tasks 0] [--stages]

`up --detach`, a whole process, until it has ended: then the services answer and the agent is registered. Memory is the
proportional set size (PSS) of the supervisor and its services, processor time theirs over --idle seconds. The baseline
of `up` is `python -c pass` four times, one after the other: what four Python programs take that do nothing.

With --tasks 1000 the same again while so many containers run `sleep` and nothing happens: by task, with conmon and what
is in the containers, and what the kernel keeps for them, beside. With --stages it is told where the time of `up` goes,
and the processor time that each process has had by then, which other work does not change much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path

import aiohttp

from benchmarks.cli import MESOS_GPU, compiled, run_quietly
from benchmarks.kept import figure
from benchmarks.launch import FRAMEWORK, Framework
from benchmarks.stages import began_s, show_stages, stages_ms
from mesos_gpu.local import status
from mesos_gpu.local.forking.forks import KEPT_S
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.local.record import left_behind

UP_AIM_S, PSS_AIM_MIB, CPU_AIM = 1.0, 100.0, 0.001
PROGRAMS = 4
TASK_KIB, TASK_PROCESSES = 4096, 4
"""What a task may need, by which a machine is judged."""
SETTLED_S = KEPT_S + 1
"""After this a box has done with what coming up takes."""
BEGIN_S = 0.5
"""How long the begin and the end of a task may take."""
BATCH = 50
"""How many tasks are begun before their statuses are waited for."""


def supervisor(work_dir: Path) -> int:
    """Return the process that starts a box's services."""
    pid: int = json.loads((work_dir / "box.json").read_bytes())["pid"]
    return pid


def family(root: int) -> dict[int, str]:
    """Return a process and all below it, with what each runs."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return {pid: _runs(pid) for pid in found}


def _runs(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


def pss_mib(pids: Collection[int]) -> float:
    """Return the proportional set sizes of processes, all together."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def cpu_s(pids: Collection[int]) -> float:
    """Return the processor time that processes have had, to the nanosecond; `stat` counts in 10 ms."""
    return sum(int(text.split()[0]) for text in _of_threads(pids, "schedstat")) / 1e9


def wake_ups(pids: Collection[int]) -> int:
    """Return how often processes began to wait, and so were woken again: what polls shows here."""
    lines = (line for text in _of_threads(pids, "status") for line in text.splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def _of_threads(pids: Collection[int], name: str) -> Iterator[str]:
    for pid in pids:
        try:
            yield from [(thread / name).read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:  # it has ended
            continue


def kernel_mib() -> float:
    """Return what the kernel of this machine keeps for processes and files: page tables, stacks, slabs, counters."""
    kinds = {"Slab", "PageTables", "KernelStack", "Percpu"}
    pairs = (line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(size.split()[0]) for kind, size in pairs if kind in kinds) / 1024


def held(tasks: int) -> int:
    """Return how many of these tasks this machine can hold; say why, where that is fewer."""
    free = {line.split(":")[0]: int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()}
    processes = min(int(Path("/proc/sys/kernel", name).read_text()) for name in ("pid_max", "threads-max"))
    limits = {
        f"{free['MemAvailable'] >> 10} MiB of memory": free["MemAvailable"] // TASK_KIB,
        f"{processes} processes": processes // 2 // TASK_PROCESSES,
    }
    why, most = min(limits.items(), key=lambda one: one[1])
    if most < tasks:
        print(f"{most} tasks in the place of {tasks}: this machine has {why}")
    return min(tasks, most)


Row = list[tuple[str, float, float]]


def up(work_dir: Path, environment: dict[str, str]) -> tuple[float, Row, dict[str, float]]:
    """Return how long `up --detach` takes, its stages in ms, and the processor ms that its processes have had."""
    ports = [f"--{name}_port=0" for name in ("master", "agent", "marathon")]
    command = [str(MESOS_GPU), "up", "--detach", "--open", f"--work_dir={work_dir}", "--gpu_driver=simulated", *ports]
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run_quietly(command, environment)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    box = json.loads((work_dir / "box.json").read_bytes())
    pids = {"supervisor": box["pid"], "master": box["master"]["pid"], "marathon": box["marathon"]["pid"]}
    pids |= {agent["name"]: agent["pid"] for agent in box["agents"]}
    used = {"the command": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3}
    used |= {name: cpu_s([pid]) * 1e3 for name, pid in pids.items()}
    (line,) = (
        line for line in (work_dir / "log" / "supervisor.log").read_text().splitlines() if "start of the" in line
    )
    offset = (began_s(line) - began) * 1e3
    rest = [(name, at + offset, took_ms) for name, at, took_ms in stages_ms(line)]
    ended = ("command ended", took * 1e3, took * 1e3 - rest[-1][1])
    return took, [("supervisor began", offset, offset), *rest, ended], used


def show_start(rows: list[Row], used: list[dict[str, float]]) -> None:
    """Print where the time of `up` goes, medians of several."""
    print(f"stages of {len(rows)} starts, medians in ms since the command was typed:")
    show_stages(rows)
    print("processor time by then, medians in ms:")
    for name in used[0]:
        print(f"  {name:24} {statistics.median(one[name] for one in used):8.0f}")


def bare_s(environment: dict[str, str]) -> float:
    """Return what as many Python programs as a box has take, one after the other, that do nothing."""
    began = time.perf_counter()
    for _ in range(PROGRAMS):
        subprocess.run([sys.executable, "-c", "pass"], check=True, env=environment)
    return time.perf_counter() - began


def show_idle(name: str, work_dir: Path, idle_s: float) -> None:
    """Print what the supervisor and its services hold and use while nothing happens."""
    time.sleep(SETTLED_S)
    processes = family(supervisor(work_dir))
    before, woken = cpu_s(processes), wake_ups(processes)
    time.sleep(idle_s)
    share, often = (cpu_s(processes) - before) / idle_s, (wake_ups(processes) - woken) / idle_s
    print(
        f"{name}: {len(processes)} processes, PSS {pss_mib(processes):.1f} MiB, {share * 100:.2f} % of a core, "
        f"{often:.1f} wake-ups a second"
    )
    figure(f"{name}, memory", f"{name}, {len(processes)} processes: PSS", pss_mib(processes), "MiB", aim=PSS_AIM_MIB)
    figure(f"{name}, processor", f"{name}: of a core", share * 100, "%", aim=CPU_AIM * 100)
    for pid, command in sorted(processes.items()):
        print(f"  {pss_mib([pid]):6.1f} MiB  {command[:100]}")


class Sleepers(Framework):
    """A scheduler with many tasks that sleep."""

    async def begin(self, tasks: int) -> None:
        """Return when all of them run."""
        waiting, running = tasks, 0
        while running < tasks:
            kind, event = await self._any("OFFERS", "UPDATE")
            if kind == "UPDATE":
                told = event["status"]
                await self._call("ACKNOWLEDGE", acknowledge={key: told[key] for key in ("agent_id", "task_id", "uuid")})
                running += told["state"] == "TASK_RUNNING"
                if told["state"] not in ("TASK_STARTING", "TASK_RUNNING"):
                    raise SystemExit(f"a task ended: {told}")
                continue
            for offer in event["offers"]:
                count = min(waiting, BATCH)
                waiting -= count
                launch = {"type": "LAUNCH", "launch": {"task_infos": [self._task(offer) for _ in range(count)]}}
                accept = {"offer_ids": [offer["id"]], "operations": [launch], "filters": {"refuse_seconds": 0}}
                await self._call("ACCEPT", accept=accept)

    def _task(self, offer: dict[str, dict[str, str]]) -> dict[str, object]:
        role = {"allocation_info": {"role": "benchmark"}}
        needs = {"cpus": 0.001, "mem": 1}
        return {
            "name": "sleeper",
            "task_id": {"value": str(uuid.uuid4())},
            "agent_id": offer["agent_id"],
            "command": {"value": "sleep 1000"},
            "resources": [{"name": n, "type": "SCALAR", "scalar": {"value": v}, **role} for n, v in needs.items()],
        }


async def with_tasks(work_dir: Path, tasks: int, idle_s: float) -> None:
    """Print what so many running tasks cost while nothing happens."""
    FRAMEWORK["name"] = "sleepers"
    before, kernel = pss_mib(family(supervisor(work_dir))), kernel_mib()
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        framework = Sleepers(session, status(work_dir)["master"]["url"])
        await framework.subscribe()
        began = time.perf_counter()
        await asyncio.wait_for(framework.begin(tasks), 10 + tasks * BEGIN_S)
        print(f"{tasks} tasks run after {time.perf_counter() - began:.0f} s")
        pid = supervisor(work_dir)
        everything = family(pid)
        services = [one for one, command in everything.items() if "mesos_gpu" in command and "conmon" not in command]
        beside = [one for one in everything if one not in services]
        await asyncio.sleep(2)
        used, beside_used, woken, beside_woken = *map(cpu_s, (services, beside)), *map(wake_ups, (services, beside))
        began = time.perf_counter()
        await asyncio.sleep(idle_s)
        took = time.perf_counter() - began
        share, beside_share = (cpu_s(services) - used) / took, (cpu_s(beside) - beside_used) / took
        often, beside_often = (wake_ups(services) - woken) / took, (wake_ups(beside) - beside_woken) / took
        print(
            f"with {tasks} tasks, {len(beside)} processes beside the services:\n"
            f"  processor: services {share * 100:.3f} % of a core, {share / tasks * 1e6:.2f} µs a second for each "
            f"task; beside {beside_share / tasks * 1e6:.2f} µs\n"
            f"  wake-ups a second: services {often:.1f}, beside {beside_often:.1f}\n"
            f"  memory for each task: services {(pss_mib(services) - before) * 1024 / tasks:.0f} KiB, beside "
            f"{pss_mib(beside) * 1024 / tasks:.0f} KiB, the kernel {(kernel_mib() - kernel) * 1024 / tasks:.0f} KiB"
        )
        with_them = f"while {tasks} tasks run and nothing happens"
        figure("tasks, processor", f"{with_them}: services, of a core", share * 100, "%", aim=CPU_AIM * 100)
        services_kib = (pss_mib(services) - before) * 1024 / tasks
        figure("tasks, services", f"{with_them}: services, PSS for each task", services_kib, "KiB")
        beside_kib = pss_mib(beside) * 1024 / tasks
        figure("tasks, beside", f"{with_them}: conmon, init, sh and sleep, PSS for each task", beside_kib, "KiB")
        for name, pids in by_program(everything, beside).items():
            print(f"    {pss_mib(pids) * 1024 / tasks:6.0f} KiB  {len(pids)} times {name}")
        await framework.teardown()
        await asyncio.wait_for(until_ended(work_dir), 10 + tasks * BEGIN_S)


def by_program(everything: dict[int, str], pids: Collection[int]) -> dict[str, list[int]]:
    """Return processes by the name of the program that each runs."""
    found: dict[str, list[int]] = {}
    for pid in pids:
        found.setdefault(Path(everything[pid].partition(" ")[0]).name or "(a process that has ended)", []).append(pid)
    return found


async def until_ended(work_dir: Path) -> None:
    """Return when the agent has no container any more; `down` is not as patient."""
    while left_behind(runtime_dir(work_dir)):  # noqa: ASYNC110 - a folder tells nobody that it is empty
        await asyncio.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ups", type=int, default=5)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds")
    parser.add_argument("--tasks", type=int, default=0)
    parser.add_argument("--stages", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-benchmark-") as name:
        folder = Path(name)
        environment = compiled(folder)
        ups, bare, rows, used = [], [], [], []
        for turn in range(chosen.ups + 1):
            work_dir = folder / f"box-{turn}"
            try:
                took, row, cpu = up(work_dir, environment)
                ups.append(took)
                rows.append(row)
                used.append(cpu)
                bare.append(bare_s(environment))
                if turn == chosen.ups:
                    show_idle("idle", work_dir, chosen.idle)
                    print(f"  aims: {PSS_AIM_MIB:g} MiB, {CPU_AIM * 100:g} %")
                    if chosen.tasks:
                        asyncio.run(with_tasks(work_dir, held(chosen.tasks), chosen.idle))
            finally:
                run_quietly([str(MESOS_GPU), "down", f"--work_dir={work_dir}"], environment)
    if chosen.stages:
        show_start(rows[1:], used[1:])
    ours, theirs = statistics.median(ups[1:]), statistics.median(bare[1:])
    print(f"up --detach: median {ours:.2f} s, shortest {min(ups[1:]):.2f} s, of {chosen.ups} (aim: {UP_AIM_S:g} s)")
    what = f"`up --detach` until ready, median of {chosen.ups}"
    bare_name = f"{PROGRAMS} times `python -c pass`"
    figure("up", what, ours, "s", beside=(bare_name, theirs), aim=UP_AIM_S, aim_of="value")
    print(f"{PROGRAMS} times python -c pass: {theirs:.2f} s; ratio {ours / theirs:.1f}")


if __name__ == "__main__":
    main()
