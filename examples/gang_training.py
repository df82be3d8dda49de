"""A training of several members, each on a machine of its own: they agree on the mean of their gradients at each step.

    mesos-gpu run --nodes 2 --gpus 1 -- python3 /path/of/gang_training.py

Each member has other points of the line y = 3 x + 1; together they find 3 and 1. With PyTorch the gradients go over
gloo, without it over plain sockets to member 0. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the gang.
"""

from __future__ import annotations

import json
import os
import socket
import time

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MASTER = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
STEPS, RATE = 400, 0.3
PATIENCE_S = 60


class OverTorch:
    """The mean over all members, by torch.distributed."""

    name = "gloo"

    def __init__(self) -> None:
        import torch.distributed

        self._torch = torch
        torch.distributed.init_process_group("gloo", init_method="env://")

    def mean(self, values: list[float]) -> list[float]:
        """Return the mean of what all members have."""
        tensor = self._torch.tensor(values, dtype=self._torch.float64)
        self._torch.distributed.all_reduce(tensor)
        return [value / SIZE for value in tensor.tolist()]

    def close(self) -> None:
        """Part from the others."""
        self._torch.distributed.destroy_process_group()


class OverSockets:
    """The same over lines of JSON: all send to member 0, which answers each with the mean."""

    name = "sockets"

    def __init__(self) -> None:
        if RANK == 0:
            with socket.create_server(("", MASTER[1]), backlog=SIZE) as door:
                door.settimeout(PATIENCE_S)
                self._links = [door.accept()[0] for _ in range(SIZE - 1)]
        else:
            self._links = [_connected()]
        for link in self._links:
            link.settimeout(PATIENCE_S)
        self._files = [link.makefile("rw", encoding="utf-8") for link in self._links]

    def mean(self, values: list[float]) -> list[float]:
        """Return the mean of what all members have."""
        if RANK:
            self._send(values)
            return self._heard()[0]
        told = [values, *self._heard()]
        found = [sum(each) / SIZE for each in zip(*told, strict=True)]
        self._send(found)
        return found

    def _send(self, values: list[float]) -> None:
        for file in self._files:
            file.write(json.dumps(values) + "\n")
            file.flush()

    def _heard(self) -> list[list[float]]:
        return [json.loads(file.readline()) for file in self._files]

    def close(self) -> None:
        """Part from the others."""
        for file, link in zip(self._files, self._links, strict=True):
            file.close()
            link.close()


def _connected() -> socket.socket:
    """Return a connection to member 0, which may have started a moment later."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(MASTER, timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def gathered() -> OverTorch | OverSockets:
    """Return a way to the other members."""
    try:
        return OverTorch()
    except ImportError:
        return OverSockets()


def main() -> None:
    """Train, and say what was found."""
    others = gathered()
    points = [(x, 3 * x + 1) for x in ((RANK + SIZE * n) / 10 for n in range(5))]
    slope = offset = 0.0
    for _ in range(STEPS):
        errors = [(slope * x + offset - y, x) for x, y in points]
        gradient = [
            sum(error * x for error, x in errors) / len(points),
            sum(error for error, _ in errors) / len(points),
        ]
        by_slope, by_offset = others.mean(gradient)
        slope, offset = slope - RATE * by_slope, offset - RATE * by_offset
    others.close()
    print(f"member {RANK} of {SIZE} on {socket.gethostname()}: y = {slope:.2f} x + {offset:.2f}, over {others.name}")


if __name__ == "__main__":
    main()
