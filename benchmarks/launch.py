"""From ACCEPT to TASK_RUNNING for a 1-GPU task on a whole box, beside a bare run of the same bundle by the OCI runtime.

    ./run bench launch [--runs 30]

A framework over plain HTTP accepts an offer with one task that runs `true`; the clock stops when TASK_RUNNING is read
from its event stream, two acknowledged statuses and four processes later, and again when TASK_FINISHED is. The bare run
is `crun run` (else `runc run`) of the very config.json that the agent wrote for such a task, to the end of `true` and
the removal of the container; `plain` is the same without the compiled filter of system calls that the agent put there
for crun (container/host/filters.py), as any other engine writes it. All take turns: a busy machine slows each of them.

Then the stages of these launches, by the agent's --trace_launches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.container import SETTLE_S, WARM_UPS, bare_ms, p95, show
from benchmarks.kept import figure
from benchmarks.stages import show_stages, stages_ms
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.runtime import find_program
from mesos_gpu.local import UpOptions, down, status, up
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.mesos.recordio import RecordDecoder

FRAMEWORK = {
    "user": "root",
    "name": "benchmark",
    "roles": ["benchmark"],
    "checkpoint": True,
    "capabilities": [{"type": "GPU_RESOURCES"}, {"type": "MULTI_ROLE"}],
}
NEEDS = {"cpus": 0.1, "mem": 64, "gpus": 1}
RUNNING_AIM, FINISHED_AIM = 1.15, 1.3


class Framework:
    """A scheduler over the v1 API, no more than a stopwatch needs."""

    def __init__(self, session: aiohttp.ClientSession, master: str) -> None:
        self._session, self._url = session, f"{master}/api/v1/scheduler"
        self._headers: dict[str, str] = {}
        self._id: dict[str, str] = {}
        self._events: AsyncIterator[dict[str, Any]] | None = None

    async def subscribe(self) -> None:
        body = {"type": "SUBSCRIBE", "subscribe": {"framework_info": FRAMEWORK}}
        answer = await self._session.post(self._url, json=body)
        answer.raise_for_status()
        self._headers = {"Mesos-Stream-Id": answer.headers["Mesos-Stream-Id"]}
        self._events = _events(answer)
        self._id = (await self._next("SUBSCRIBED"))["framework_id"]

    async def run(self, command: str, *, until: str) -> tuple[dict[str, float], str]:
        """Launch a task on the next offer; return milliseconds to each state, and its container, after `until`."""
        offer = await self._offer()
        role = {"allocation_info": {"role": "benchmark"}}
        task = {
            "name": "benchmark",
            "task_id": {"value": str(uuid.uuid4())},
            "agent_id": offer["agent_id"],
            "command": {"value": command},
            "resources": [{"name": n, "type": "SCALAR", "scalar": {"value": v}, **role} for n, v in NEEDS.items()],
        }
        launch = {"type": "LAUNCH", "launch": {"task_infos": [task]}}
        accept = {"offer_ids": [offer["id"]], "operations": [launch], "filters": {"refuse_seconds": 0}}
        began = time.perf_counter()
        await self._call("ACCEPT", accept=accept)
        took_ms: dict[str, float] = {}
        while True:
            status = (await self._next("UPDATE"))["status"]
            mine = status["task_id"] == task["task_id"]  # and no second word of one that was slow to be acknowledged
            if mine:
                took_ms.setdefault(status["state"], (time.perf_counter() - began) * 1e3)
            known = {key: status[key] for key in ("agent_id", "task_id", "uuid")}
            await self._call("ACKNOWLEDGE", acknowledge=known)
            if mine and status["state"] == until:
                return took_ms, status["container_status"]["container_id"]["value"]
            if status["state"] not in ("TASK_STARTING", "TASK_RUNNING"):
                raise SystemExit(f"the task ended: {status}")

    async def teardown(self) -> None:
        await self._call("TEARDOWN")

    async def _offer(self) -> dict[str, Any]:
        while True:
            offers = (await self._next("OFFERS"))["offers"]
            for offer in offers:
                if any(r["name"] == "gpus" for r in offer["resources"]):
                    return offer  # type: ignore[no-any-return]
                await self._call("DECLINE", decline={"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0}})

    async def _next(self, kind: str) -> dict[str, Any]:
        return (await self._any(kind))[1]

    async def _any(self, *kinds: str) -> tuple[str, dict[str, Any]]:
        if self._events is None:
            raise RuntimeError("not subscribed")
        async for event in self._events:
            if event["type"] in kinds:
                return event["type"], event[event["type"].lower()]
        raise SystemExit("the master closed the stream")

    async def _call(self, kind: str, **body: Any) -> None:
        call = {"framework_id": self._id, "type": kind, **body}
        async with self._session.post(self._url, json=call, headers=self._headers) as answer:
            answer.raise_for_status()


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    decoder = RecordDecoder()
    async for data in answer.content.iter_any():
        for record in decoder.feed(data):
            yield json.loads(record)


async def measure(work_dir: Path, runs: int) -> None:
    program = next(path for path in map(find_program, ("crun", "runc")) if path is not None)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    mounts = MountNamespace(work_dir / "host")
    ours: list[dict[str, float]] = []
    bare, plain = [], []
    async with aiohttp.ClientSession(timeout=timeout) as session:
        framework = Framework(session, status(work_dir)["master"]["url"])
        await framework.subscribe()
        try:
            await mounts.open()
            # A task that stays lets us copy what the agent wrote for it.
            _, container = await framework.run("sleep 300", until="TASK_RUNNING")
            (config,) = runtime_dir(work_dir).glob(f"*/bundles/{container}/config.json")
            document = json.loads(config.read_text())
            document["process"]["args"] = [
                "true" if word == "sleep 300" else word for word in document["process"]["args"]
            ]
            document["root"]["path"] = str(work_dir / "host")
            (work_dir / "config.json").write_text(json.dumps(document))
            (work_dir / "plain").mkdir()
            document.pop("annotations", None)
            (work_dir / "plain" / "config.json").write_text(json.dumps(document))
            for turn in range(WARM_UPS + runs):
                await asyncio.sleep(SETTLE_S)
                ours.append((await framework.run("true", until="TASK_FINISHED"))[0])
                await asyncio.sleep(SETTLE_S)
                bare.append(await mounts.run(partial(bare_ms, program, work_dir, f"bare-{turn}")))
                await asyncio.sleep(SETTLE_S)
                plain.append(await mounts.run(partial(bare_ms, program, work_dir / "plain", f"plain-{turn}")))
        finally:
            await framework.teardown()
            mounts.close()
    running = [times["TASK_RUNNING"] for times in ours[WARM_UPS:]]
    finished = [times["TASK_FINISHED"] for times in ours[WARM_UPS:]]
    bare, plain = bare[WARM_UPS:], plain[WARM_UPS:]
    show("ACCEPT to TASK_RUNNING", running)
    show("ACCEPT to TASK_FINISHED", finished)
    show(f"bare {program.name} run", bare)
    show(f"bare {program.name} run, plain", plain)
    for name, times, aim in (("TASK_RUNNING", running, RUNNING_AIM), ("TASK_FINISHED", finished, FINISHED_AIM)):
        for baseline, others in (("the same bundle", bare), ("the plain bundle", plain)):
            medians, tails = statistics.median(times) / statistics.median(others), p95(times) / p95(others)
            print(f"{name} to {baseline}: ratio of medians {medians:.2f}, of p95 {tails:.2f} (aim: {aim})")
            keep(f"{name} of a 1-GPU task", f"bare `{program.name} run` of {baseline}", times, others, aim)


def keep(name: str, baseline: str, times: list[float], others: list[float], aim: float) -> None:
    """Keep medians and p95."""
    for word, of in (("median", statistics.median), ("p95", p95)):
        key = f"{word} of {name.partition(' ')[0]} to {baseline.partition(' of ')[2]}"
        figure(
            key, f"ACCEPT to {name}, {word} of {len(times)}", of(times), "ms", beside=(baseline, of(others)), aim=aim
        )


def show_last(logs: Iterable[Path], tasks: int) -> None:
    """Print the medians of the stages of the last tasks that agents traced."""
    lines = [line for log in logs for line in log.read_text().splitlines() if ": launch of " in line][-tasks:]
    print(f"the agent's stages, medians of {len(lines)} tasks, in ms since the task came from the master:")
    show_stages([stages_ms(line) for line in lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-benchmark-") as folder:
        work_dir = Path(folder)
        os.environ["MESOS_TRACE_LAUNCHES"] = "true"
        up(UpOptions(work_dir=work_dir, master_port=0, agent_port=0, marathon_port=0, detach=True, open=True))
        try:
            asyncio.run(measure(work_dir, runs))
        finally:
            down(work_dir, keep_tasks=False)
        show_last(work_dir.rglob("*agent*.log"), runs)


if __name__ == "__main__":
    main()
