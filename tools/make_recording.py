"""Writes docs/start/first-five-minutes.md, and the same in Chinese: the first commands, and what a terminal showed.

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
START = ROOT / "docs" / "start"
PAGE, CHINESE_PAGE = START / "first-five-minutes.md", START / "first-five-minutes.zh-CN.md"
LANGUAGES = {PAGE: "C.UTF-8", CHINESE_PAGE: "zh_CN.UTF-8"}
"""The pages, and LANG of the shell that each shows."""
WIDTH, HEIGHT = 110, 50
PATIENCE_S = 120


class Step(NamedTuple):
    """A command, why it is typed, in English and in Chinese, and the status it ends with."""

    text: str
    chinese: str
    command: str
    status: int = 0


STEPS = (
    Step(
        "A box: master, agent and Marathon on this machine. Without an NVIDIA GPU its GPUs are simulated.",
        "启动单机环境（box）：本机上的 master、agent 和 Marathon。没有 NVIDIA GPU 时会模拟。",
        "mesos-gpu up --detach",
    ),
    Step("Which GPUs are there?", "有哪些 GPU？", "mesos-gpu gpu list"),
    Step(
        "A command on a GPU of its own, once. It sees that one and no other.",
        "在一张独占的 GPU 上运行一条命令；它只看得到这一张。",
        "mesos-gpu run -- nvidia-smi -L",
    ),
    Step(
        "An app, as in DC/OS' guide; it goes on until it is removed.",
        "一个应用，与 DC/OS 指南里的相同；删除之前会一直运行。",
        "mesos-gpu app add examples/simple-gpu-test.json --wait",
    ),
    Step("What runs, and on which GPU?", "什么在运行，用的是哪张 GPU？", "mesos-gpu task list"),
    Step("What does it write?", "它输出了什么？", "mesos-gpu task log simple-gpu-test | head -20"),
    Step("With hands in its container.", "在它的容器里执行命令。", "mesos-gpu task exec simple-gpu-test nvidia-smi -L"),
    Step(
        "A file with mistakes: all of them are told, before anything is sent.",
        "定义里有错误时，发送之前就会一次全部指出。",
        """echo '{"id": "train", "cmd": "./train", "gpu": 2, "cpus": "4"}' | mesos-gpu app add""",
        1,
    ),
    Step(
        "More GPUs than there are: it says what is missing.",
        "申请的 GPU 超过现有数量时，会说明缺什么。",
        "mesos-gpu run --gpus 9 --timeout 5 -- true",
        4,
    ),
    Step(
        "What ran with docker.",
        "原来用 docker 运行的命令。",
        "mesos-gpu convert -o yaml docker run --gpus 2 -v /data:/data:ro --ulimit core=0 nvidia/cuda:12.4.1 nvidia-smi",
    ),
    Step("And gone again.", "删除应用。", "mesos-gpu app remove simple-gpu-test --wait"),
    Step("The box too.", "停止 box。", "mesos-gpu down"),
)


def shell_setup() -> str:
    """Return what makes `mesos-gpu` in a shell this tree's program, on a box with free ports and simulated GPUs."""
    program = f"{shlex.quote(sys.executable)} -m marathon_cli"
    up = "up --gpu_driver=simulated --simulated_gpus=4 --master_port=0 --agent_port=0 --marathon_port=0"
    return f'mesos-gpu() {{ if [ "$1" = up ]; then shift; {program} {up} "$@"; else {program} "$@"; fi; }}'


def environment(work_dir: Path, language: str = "C.UTF-8") -> dict[str, str]:
    """Return the environment of the shell; Python writes UTF-8 also where the machine does not know the language."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MARATHON_", "MESOS_", "TMUX"))}
    env = {key: value for key, value in env.items() if not key.startswith("LC_")}
    return {**env, "MESOS_GPU_WORK_DIR": str(work_dir), "PYTHONPATH": str(ROOT), "LANG": language, "PYTHONUTF8": "1"}


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
        command = ["tmux", "-u", "-S", self._socket, *words]
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


HEAD = """\
# The first five minutes

This page shows the output on a machine without an NVIDIA GPU; `tools/make_recording.py` records it. On a machine with a
GPU and its driver, the same commands use that GPU. [中文](first-five-minutes.zh-CN.md)

The commands need root. If you are another user, open a root shell in the clone with `sudo -s`. The first command makes
`mesos-gpu` available, by a link in `/usr/local/bin`. Skip it if you have [installed mesos-gpu another way](install.md).

```sh
./run install
```

`mesos-gpu ui` opens the web UI ([more pictures](../do/ui.md)):

![Services with their state and its reason](../pictures/ui-services.png)"""
CHINESE_HEAD = """\
# 最初的五分钟

以下是没有 NVIDIA GPU 的机器上终端的实际显示，由 `tools/make_recording.py` 重新录制。
有 GPU 和驱动时，同样的命令会直接使用它。[English](first-five-minutes.md)

这些命令需要 root 权限。其他用户可在克隆的目录里用 `sudo -s` 打开 root shell。
第一条命令在 `/usr/local/bin` 里建立 `mesos-gpu` 的链接；如果已用[其他方式安装](install.zh-CN.md)，请跳过。

```sh
./run install
```

`mesos-gpu ui` 打开 Marathon 自带的页面（[更多截图](../do/ui.md)）：

![一个服务的日志](../pictures/ui-logs-zh.png)"""
HEADS = {PAGE: HEAD, CHINESE_PAGE: CHINESE_HEAD}
"""What each page begins with."""
END = """\
To remove `mesos-gpu` from the machine, run `mesos-gpu down --purge` and `./run uninstall`
([other ways](install.md#uninstall))."""
CHINESE_END = """\
从机器上移除 `mesos-gpu`：先运行 `mesos-gpu down --purge`，再运行 `./run uninstall`
（[其他安装方式](install.zh-CN.md#卸载)）。"""
ENDS = {PAGE: END, CHINESE_PAGE: CHINESE_END}
"""What each page ends with."""


def page(path: Path, screens: list[str]) -> str:
    """Return a page for what the screen showed after each step."""
    parts = [HEADS[path]]
    for step, screen in zip(STEPS, screens, strict=True):
        text = step.text if path == PAGE else step.chinese
        parts.append(f"{text}\n\n```console\n{screen}\n```")
    return "\n\n".join([*parts, ENDS[path]]) + "\n"


def recorded(language: str) -> list[str]:
    """Type every step into a terminal, on a box of its own; return what the screen showed after each."""
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-recording-") as name:
        work_dir = Path(name) / "box"
        env = environment(work_dir, language)
        try:
            with Terminal(Path(name), env) as terminal:
                return [as_on_a_quiet_machine(terminal.type(step.command), work_dir) for step in STEPS]
        finally:
            if (work_dir / "box.json").exists():
                subprocess.run([sys.executable, "-m", "marathon_cli", "down"], cwd=ROOT, env=env, check=False)


def main() -> None:
    """Record, and write the pages."""
    for path, language in LANGUAGES.items():
        path.write_text(page(path, recorded(language)), encoding="utf-8")


if __name__ == "__main__":
    main()
