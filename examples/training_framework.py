#!/usr/bin/env python3
"""Data-parallel training on Mesos: N workers with a GPU each, in step with each other; a lost one is replaced.

    python examples/training_framework.py [HOST:PORT of the master] [WORKERS]

A framework on pymesos and mesos_gpu.framework; it runs on the box of `mesos-gpu up` and on any other Mesos. Its tests,
on a cluster of their own, are in test_training_framework.py. docs/do/frameworks.md walks through both.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pymesos import MesosSchedulerDriver, Scheduler

from mesos_gpu.framework import GpuTask, Offered, framework_info, is_terminal

WORKER = Path(__file__).with_name("training_worker.py")
LEARNING_RATE = 0.2


class Model:
    """The weights, and where workers meet: a step is done when every rank has posted its gradient."""

    def __init__(self, workers: int, steps: int) -> None:
        self.workers, self.steps = workers, steps
        self.step, self.weights = 0, [0.0, 0.0]
        self.gpus: dict[int, list[str]] = {}
        self._gradients: dict[int, list[float]] = {}
        self._stepped = threading.Condition()

    def join(self, rank: int, gpus: list[str]) -> dict[str, Any]:
        """Take in a worker, new or in the place of a lost one: it continues where the others are."""
        self.gpus[rank] = gpus
        return self.copy()

    def post(self, rank: int, step: int, gradient: list[float]) -> dict[str, Any]:
        """Take a worker's gradient; return the next copy when all have given theirs. A late one counts no more."""
        with self._stepped:
            if step == self.step:
                self._gradients[rank] = gradient
                if len(self._gradients) == self.workers:
                    means = [sum(column) / self.workers for column in zip(*self._gradients.values(), strict=True)]
                    self.weights = [w - LEARNING_RATE * mean for w, mean in zip(self.weights, means, strict=True)]
                    self.step, self._gradients = self.step + 1, {}
                    self._stepped.notify_all()
            self._stepped.wait_for(lambda: self.step > step)
            return self.copy()

    def copy(self) -> dict[str, Any]:
        return {"step": self.step, "weights": self.weights, "done": self.step >= self.steps}

    def serve(self) -> ThreadingHTTPServer:
        """Answer workers, on a free port, from threads of its own."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps((model.join if self.path == "/join" else model.post)(**given)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


class Training(Scheduler):  # type: ignore[misc]
    """Keeps one task per rank running until all have finished. Its state is the callback thread's alone."""

    def __init__(self, url: str, workers: int) -> None:
        self.url = url
        self.attempt = dict.fromkeys(range(workers), 0)
        self.waiting, self.running = set(range(workers)), set(range(workers))
        self.finished, self.replaced = threading.Event(), threading.Event()

    def task(self, rank: int) -> GpuTask:
        command = f"exec python3 {WORKER.name} {self.url} {rank}"
        return GpuTask(
            f"worker-{rank}-{self.attempt[rank]}", command, gpus=1, cpus=0.1, mem_mib=64, uris=[WORKER.as_uri()]
        )

    def resourceOffers(self, driver: Any, offers: list[dict[str, Any]]) -> None:
        for offered in map(Offered, offers):
            tasks = []
            for rank in sorted(self.waiting):
                if offered.fits(self.task(rank)):
                    tasks.append(offered.launch(self.task(rank)))
                    self.waiting.remove(rank)
            driver.launchTasks(offered.id, tasks)  # without tasks, pymesos declines
        if not self.waiting:
            driver.suppressOffers()

    def statusUpdate(self, driver: Any, update: dict[str, Any]) -> None:
        _, rank, attempt = update["task_id"]["value"].split("-")
        print(update["task_id"]["value"], update["state"], update.get("message", ""), flush=True)
        if int(attempt) != self.attempt[int(rank)] or not is_terminal(update["state"]):
            return  # news of one that was given up, or that it continues
        if update["state"] == "TASK_FINISHED":
            self.running.discard(int(rank))
            if not self.running:
                self.finished.set()
        else:
            self.attempt[int(rank)] += 1
            self.waiting.add(int(rank))
            self.replaced.set()
            driver.reviveOffers()

    def reregistered(self, driver: Any, master_info: dict[str, Any]) -> None:
        driver.reconcileTasks([])  # what became of the tasks while there was no master


def main() -> int:
    """Train; return 0 when all workers have finished."""
    master = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:5050"
    model = Model(workers=int(sys.argv[2]) if len(sys.argv) > 2 else 2, steps=100)
    server = model.serve()
    training = Training(f"http://127.0.0.1:{server.server_port}", model.workers)
    driver = MesosSchedulerDriver(
        training,
        framework_info("training"),
        master,
        principal=os.environ.get("MESOS_PRINCIPAL"),
        secret=os.environ.get("MESOS_SECRET"),
    )
    driver.start()
    try:
        training.finished.wait()
    finally:
        driver.stop()
        driver.join()
        server.shutdown()
        server.server_close()
    print(f"y = {model.weights[0]:.2f} x + {model.weights[1]:.2f} after {model.step} steps on {model.workers} GPUs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
