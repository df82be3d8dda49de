"""What memory a cold pull takes: that of the store's process, and of each worker. Run by image.py.

    python -m benchmarks.image_memory URL IMAGE FOLDER

A process of its own, so that nothing else has been in its memory. Peaks are the kernel's (VmHWM of proc(5)); workers
are looked at every 20 ms, and keep their peaks until they end.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import ImageStore

LOOK_S = 0.02


def status_mib(process: str, key: str) -> float:
    """Return a line of /proc/PROCESS/status."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines[key].split()[0]) / 1024


async def peaks_mib(url: str, name: str, directory: Path) -> dict[str, float]:
    """Pull an image; return what the process had before, its peak, and the highest peak of a worker."""
    store = ImageStore(directory, open_source(url))
    await store.recover()
    before, workers = status_mib("self", "VmRSS"), 0.0
    pulling = asyncio.ensure_future(store.pull(name))
    while not pulling.done():
        await asyncio.wait([pulling], timeout=LOOK_S)
        for thread in Path("/proc/self/task").iterdir():
            children = ""
            with suppress(OSError):  # it has ended
                children = (thread / "children").read_text()
            for pid in children.split():
                with suppress(OSError, KeyError):
                    if b"images.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        workers = max(workers, status_mib(pid, "VmHWM"))
    await pulling
    await store.close()
    return {"before": before, "own": status_mib("self", "VmHWM"), "worker": workers}


def measured(url: str, name: str, directory: Path) -> dict[str, float]:
    """Return `peaks_mib` of another process."""
    command = [sys.executable, "-m", "benchmarks.image_memory", url, name, str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[1])
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(peaks_mib(sys.argv[1], sys.argv[2], Path(sys.argv[3])))))
