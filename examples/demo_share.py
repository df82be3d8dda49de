"""Two tasks on one GPU, with weights of 1 and 2, and what each of them gets, drawn while they run.

`./run demo-share` runs this. The GPU is simulated: its kernels take time and compute nothing; who has the card when is
decided and enforced as on a real one. In a terminal bars move; elsewhere it prints a line each second.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from demo import MESOS_GPU, bring_up, leave, put_away, show

TENANT = Path(__file__).resolve().parent / "gpu_tenant.py"
WEIGHTS = {"/one": 1, "/two": 2}
THEN = 4
"""What /one's weight is changed to, while it runs."""
EACH_S = 12.0
WINDOW = 4
"""A share is that of the last so many looks."""
PATIENCE_S = 120.0


def app(name: str, weight: int) -> str:
    """Return the definition of a tenant."""
    command = f"exec {sys.executable} -S {TENANT}"
    share = {"memGiB": 6, "weight": weight}
    return json.dumps({"id": name, "cmd": command, "cpus": 0.1, "mem": 64, "gpuShare": share}, indent=2)


def used() -> Mapping[str, Mapping[str, float]]:
    """Return what `mesos-gpu share list` says of each app that has a part of the card and uses it."""
    words = [str(MESOS_GPU), "share", "list", "-o", "json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, start_new_session=True)
    return {one["app"]: one for one in json.loads(done.stdout) if one.get("app") and one.get("used_s")}


class Screen:
    """Draws shares: bars that move in a terminal, else a line each time."""

    def __init__(self) -> None:
        self._moves = sys.stdout.isatty()
        self._drawn = 0

    def draw(self, shares: Mapping[str, float], weights: Mapping[str, int]) -> None:
        """Show what each app had of the card lately, beside what its weight is."""
        total = sum(weights.values())
        if not self._moves:
            told = (f"{name} {share:6.1%} of {weights[name] / total:6.1%}" for name, share in sorted(shares.items()))
            print("   ".join(told), flush=True)
            return
        wide = max(10, min(60, shutil.get_terminal_size().columns - 40))
        if self._drawn:
            print(f"\x1b[{self._drawn}A", end="")
        for name, share in sorted(shares.items()):
            full, ideal = round(share * wide), round(weights[name] / total * wide)
            bar = "".join("|" if at == ideal else "█" if at < full else "·" for at in range(wide + 1))
            print(f"\x1b[2K  {name}  weight {weights[name]}  {bar} {share:6.1%}", flush=True)
        self._drawn = len(shares)

    def over(self) -> None:
        """Begin below what was drawn."""
        self._drawn = 0


def watch(screen: Screen, weights: Mapping[str, int], seconds: float) -> None:
    """Draw shares for a while; the first looks are of the time before."""
    looks: deque[Mapping[str, Mapping[str, float]]] = deque(maxlen=WINDOW + 1)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        looks.append(used())
        if len(looks) > 1 and looks[0].keys() == looks[-1].keys() == weights.keys():
            since = {name: looks[-1][name]["used_s"] - looks[0][name]["used_s"] for name in weights}
            if total := sum(since.values()):
                screen.draw({name: part / total for name, part in since.items()}, weights)
        time.sleep(0.5)
    screen.over()


def both_compute() -> None:
    """Wait until both tasks use the card."""
    end_s = time.monotonic() + PATIENCE_S
    while len(used()) < len(WEIGHTS):
        if time.monotonic() > end_s:
            raise SystemExit(f"the tasks did not use the GPU within {PATIENCE_S:g} s; see mesos-gpu task log /one")
        time.sleep(0.2)


def run(folder: str, seconds: float) -> None:
    """Bring a box up whose one GPU is shared, start both tenants, draw; change a weight, draw again."""
    bring_up(
        *("--gpu_driver=simulated", "--simulated_gpus=1", "--shared_gpus=0"),
        *("--master_port=0", "--agent_port=0", "--marathon_port=0"),
    )
    for name, weight in WEIGHTS.items():
        file = Path(folder) / f"{name[1:]}.json"
        file.write_text(app(name, weight))
        subprocess.run(show("app", "add", str(file), "--wait"), check=True)
    both_compute()
    subprocess.run(show("share", "list"), check=True)
    screen = Screen()
    print("\nWhat each has of the card; | is what its weight says:", flush=True)
    watch(screen, WEIGHTS, seconds)
    subprocess.run(show("share", "set", "/one", f"--weight={THEN}"), check=True)
    print(flush=True)
    watch(screen, {**WEIGHTS, "/one": THEN}, seconds)
    subprocess.run(show("gpu", "list"), check=True)


def main(seconds: float = EACH_S) -> int:
    """Run the demo; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-demo-") as folder:
        os.environ["MESOS_GPU_WORK_DIR"] = folder
        os.environ.pop("MARATHON_URL", None)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, leave)
        try:
            try:
                run(folder, seconds)
            finally:
                put_away(folder)
        except subprocess.CalledProcessError as error:
            return int(error.returncode)  # the command has said why, on stderr
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:
            return 128 + signal.SIGPIPE
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2])))
