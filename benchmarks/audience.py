"""`./run bench scale --listeners 100`: who listens meanwhile (listeners.py, a process of its own), and what that costs.

One that never reads is cut off when 16 MiB wait for it (process/streams.py), behind what the kernel keeps. So that each
of them is, at any size, tasks have a label that brings what the master tells of them to more than that, and an app of
no instances with a large definition is put again and again, which Marathon tells of each time.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.kept.figures import figure
from benchmarks.marathon import MarathonProcess
from mesos_gpu.process.streams import MAX_WAITING

TALK_BYTES = MAX_WAITING + 6 * 1024 * 1024
"""What is told of at least: more than who is cut off may be behind, with what the kernel may keep to be sent."""
_DEFINITION_BYTES = 256 * 1024


@dataclass
class Outcome:
    """What came of a run: of master and Marathon, by name."""

    placed: int
    cpu_s: Mapping[str, float]
    peak_kib: Mapping[str, int]
    answers_ms: Mapping[str, Sequence[float]]
    """How long others waited for an answer, by what they asked for."""
    told: Mapping[str, Mapping[str, float]]
    """What the listeners say (listeners.py)."""


@dataclass
class Audience:
    """Those who listen: a process, or nobody."""

    process: asyncio.subprocess.Process | None = None
    pids: dict[str, int] = field(default_factory=dict)

    async def told(self) -> dict[str, dict[str, float]]:
        """Have them end; return what they say."""
        if self.process is None:
            return {}
        out, _ = await asyncio.wait_for(self.process.communicate(b"\n"), 300)
        found: dict[str, dict[str, float]] = json.loads(out)
        return found


@asynccontextmanager
async def listening(count: int, slow: int, marathon: str, master: str) -> AsyncIterator[Audience]:
    """Have so many listen to each meanwhile, of whom `slow` never read."""
    if not count:
        yield Audience()
        return
    words = [f"--marathon={marathon}", f"--master={master}", f"--count={count}", f"--slow={slow}"]
    pipes: dict[str, Any] = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.listeners", *words, **pipes)
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield Audience(process, {"listeners (all)": process.pid})
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def label_for(tasks: int) -> dict[str, str]:
    """Return a label that so many tasks have, so that the master tells TALK_BYTES of all of them together."""
    return {"padding": "x" * math.ceil(TALK_BYTES / tasks)}


async def talk(marathon: MarathonProcess) -> None:
    """Have Marathon tell TALK_BYTES of a large definition."""
    document = {"id": "/talk", "cmd": "true", "instances": 0, "labels": {"padding": "x" * _DEFINITION_BYTES}}
    for _ in range(math.ceil(TALK_BYTES / _DEFINITION_BYTES)):
        await marathon.call("PUT", "/v2/apps//talk?force=true", document)


def peak_kib(pid: int) -> int:
    """Return the most memory that a process had resident so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def compared(count: int, without: Outcome, with_them: Outcome) -> str | None:
    """Print what listeners cost, and keep it; return what is wrong: who was cut off, or was not."""
    wrong = []
    for name, told in with_them.told.items():
        asleep, awake = told["asleep"], count - told["asleep"]
        print(
            f"  {count} listen to the {name}: {told['events']:.0f} events each, {told['late_median_ms']:.0f} ms late "
            f"(p99 {told['late_p99_ms']:.0f}); of {asleep:.0f} that never read {told['asleep_cut_off']:.0f} were cut "
            f"off, of the {awake:.0f} others {told['awake_cut_off']:.0f}"
        )
        figure(
            f"{name}, listeners", f"how late events of the {name} are, {count} listen", told["late_median_ms"], "ms",
            note=f"p99 {told['late_p99_ms']:.0f} ms",
        )  # fmt: skip
        figure(
            f"{name}, cut off", f"of {asleep:.0f} that never read the {name}'s events, so many were cut off",
            told["asleep_cut_off"], better="more", aim=asleep, aim_of="value",
            note=f"of the {awake:.0f} others {told['awake_cut_off']:.0f}",
        )  # fmt: skip
        if told["asleep_cut_off"] < asleep or told["awake_cut_off"]:
            wrong.append(f"those who listen to the {name} are not cut off as they should be")
        more_kib = with_them.peak_kib[name] - without.peak_kib[name]
        print(
            f"  the {name} had {more_kib / 1024:.0f} MiB more at its peak, {more_kib / count:.0f} KiB for each of them"
        )
        figure(f"{name}, KiB a listener", f"memory of the {name} for a listener", more_kib / count, "KiB")
        each_ms = [run.cpu_s[name] / run.placed * 1e3 for run in (without, with_them)]
        print(f"  the {name} took {each_ms[1]:.2f} ms of processor a task, without them {each_ms[0]:.2f}")
        figure(
            f"{name}, ms a task beside listeners", f"processor time of the {name} for a task, {count} listen",
            each_ms[1], "ms", beside=("without", each_ms[0]),
        )  # fmt: skip
    for name, answers in with_them.answers_ms.items():
        with_ms, alone_ms = _median(answers), _median(without.answers_ms[name])
        print(f"  {name} meanwhile: median {with_ms:.1f} ms, without them {alone_ms:.1f}")
        figure(f"{name}, listeners", f"{name}, {count} listen", with_ms, "ms", beside=("without", alone_ms))
    return "; ".join(wrong) or None


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else math.nan
