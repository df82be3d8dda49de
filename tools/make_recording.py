"""Writes docs/start/first-five-minutes.md: the first commands that a newcomer types, and what a real terminal showed.

    .venv/bin/python tools/make_recording.py

It types into a tmux of its own, on a box of its own with simulated GPUs, and waits for the prompt after each command.
Only the box's folder and ports are written as the defaults, which a machine with other work on it cannot use.
tests/box/test_recording.py types the same commands and sees that they end as they did.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "start" / "first-five-minutes.md"
WIDTH, HEIGHT = 110, 50
PATIENCE_S = 120


class Step(NamedTuple):
    """A command, why it is typed, and the status it ends with."""

    text: str
    command: str
    status: int = 0


STEPS = (
    Step(
        "A box: master, agent and Marathon on this machine. Without an NVIDIA GPU its GPUs are simulated.",
        "mesos-gpu up --detach",
    ),
    Step("Which GPUs are there?", "mesos-gpu gpu list"),
    Step("A command on a GPU of its own, once. It sees that one and no other.", "mesos-gpu run -- nvidia-smi -L"),
    Step(
        "An app, as in DC/OS' guide; it goes on until it is removed.",
        "mesos-gpu app add examples/simple-gpu-test.json --wait",
    ),
    Step("What runs, and on which GPU?", "mesos-gpu task list"),
    Step("What does it write?", "mesos-gpu task log simple-gpu-test | head -20"),
    Step("With hands in its container.", "mesos-gpu task exec simple-gpu-test nvidia-smi -L"),
    Step(
        "A file with mistakes: all of them are told, before anything is sent.",
        """echo '{"id": "train", "cmd": "./train", "gpu": 2, "cpus": "4"}' | mesos-gpu app add""",
        1,
    ),
    Step("More GPUs than there are: it says what is missing.", "mesos-gpu run --gpus 9 --timeout 5 -- true", 4),
    Step(
        "What ran with docker.",
        "mesos-gpu convert -o yaml docker run --gpus 2 -v /data:/data:ro --ulimit core=0 nvidia/cuda:12.4.1 nvidia-smi",
    ),
    Step("And gone again.", "mesos-gpu app remove simple-gpu-test --wait"),
    Step("The box too.", "mesos-gpu down"),
)


def shell_setup() -> str:
    """Return what makes `mesos-gpu` in a shell this tree's program, on a box with free ports and simulated GPUs."""
    program = f"{shlex.quote(sys.executable)} -m marathon_cli"
    up = "up --gpu_driver=simulated --simulated_gpus=4 --master_port=0 --agent_port=0 --marathon_port=0"
    return f'mesos-gpu() {{ if [ "$1" = up ]; then shift; {program} {up} "$@"; else {program} "$@"; fi; }}'


def environment(work_dir: Path) -> dict[str, str]:
    """Return the environment of the shell."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MARATHON_", "MESOS_", "TMUX"))}
    return {**env, "MESOS_GPU_WORK_DIR": str(work_dir), "PYTHONPATH": str(ROOT)}


class Terminal:
    """A tmux of our own with one bash in it; a context manager."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._socket, self._env = str(folder / "tmux"), dict(env)
        ready = shlex.join(["tmux", "-S", self._socket, "wait-for", "-S", "ready"])
        self._rc = folder / "bashrc"
        # The prompt's command tells that the one before has ended.
        self._rc.write_text(f"{shell_setup()}\nPS1='$ '\nPROMPT_COMMAND={shlex.quote(ready)}\n")

    def __enter__(self) -> Terminal:
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, f"bash --rcfile {shlex.quote(str(self._rc))}")
        self._tmux("wait-for", "ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def type(self, command: str) -> str:
        """Type a command on an empty screen; return what the screen shows when it has ended."""
        self._tmux("send-keys", "C-l")
        self._tmux("send-keys", "-l", command)
        self._tmux("send-keys", "Enter")
        self._tmux("wait-for", "ready")
        return self._tmux("capture-pane", "-p", "-J")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, *words]
        done = subprocess.run(
            command, cwd=ROOT, env=self._env, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        return done.stdout


def as_on_a_quiet_machine(screen: str, work_dir: Path) -> str:
    """Return a screen with the default folder and ports, without the prompt at its end and spaces at ends of lines."""
    screen = screen.replace(str(work_dir), "~/.local/state/mesos-gpu")
    for service, port in (("master", 5050), ("agent", 5051), ("marathon", 8080)):
        if found := re.search(rf"^{service} .*http://127\.0\.0\.1:(\d+)", screen, re.M):
            screen = screen.replace(f":{found[1]}", f":{port}")
    lines = [line.rstrip() for line in screen.splitlines()]
    while lines and lines[-1] in ("", "$"):
        lines.pop()
    return "\n".join(lines)


def page(screens: list[str]) -> str:
    """Return the page for what the screen showed after each step."""
    parts = [
        "# The first five minutes",
        "What a terminal showed without an NVIDIA GPU; `tools/make_recording.py` types the commands anew.\n"
        "Where there is a GPU with its driver, the same commands use that.",
    ]
    for step, screen in zip(STEPS, screens, strict=True):
        parts.append(f"{step.text}\n\n```console\n{screen}\n```")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Record, and write the page."""
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-recording-") as name:
        work_dir = Path(name) / "box"
        env = environment(work_dir)
        try:
            with Terminal(Path(name), env) as terminal:
                screens = [as_on_a_quiet_machine(terminal.type(step.command), work_dir) for step in STEPS]
        finally:
            if (work_dir / "box.json").exists():
                subprocess.run([sys.executable, "-m", "marathon_cli", "down"], cwd=ROOT, env=env, check=False)
    PAGE.write_text(page(screens))


if __name__ == "__main__":
    main()
