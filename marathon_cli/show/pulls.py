"""How far pulls of images are, on the screen: a bar for each on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marathon_cli.clients.mesos import Mesos
from marathon_cli.screen.output import say
from marathon_cli.screen.progress import new_progress
from marathon_cli.screen.units import size
from mesos_gpu.errors import MesosGpuError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from marathon_cli.clients.marathon import Marathon
    from marathon_cli.connection.http import HttpClient

LINE_EVERY_S = 5.0


class PullDisplay:
    """Shows pulls as an agent's /images lists them. `close` it to have the terminal back."""

    def __init__(self, progress: Progress | None = None, *, bars: bool | None = None) -> None:
        """Show bars in `progress`, which its owner starts and stops; without one, in bars of its own."""
        self._bars = progress is not None or (sys.stderr.isatty() if bars is None else bars)
        self._progress, self._is_ours = progress, False
        self._tasks: dict[str, TaskID] = {}
        self._next_line_s = 0.0
        self._phases: dict[str, str] = {}

    def show(self, pulls: Sequence[Mapping[str, Any]], now_s: float) -> None:
        """Show where these pulls are; one that is no longer in the list is done."""
        if self._bars:
            self._show_bars(pulls)
            return
        phases = {str(pull.get("reference")): str(pull.get("phase")) for pull in pulls}
        if pulls and (phases != self._phases or now_s >= self._next_line_s):
            self._next_line_s, self._phases = now_s + LINE_EVERY_S, phases
            for pull in pulls:
                say(str(pull.get("text")))

    def close(self) -> None:
        """Take the bars from the screen."""
        if self._progress is not None:
            for task in self._tasks.values():
                self._progress.remove_task(task)
            self._tasks.clear()
            if self._is_ours:
                self._progress.stop()
            self._progress = None

    def _show_bars(self, pulls: Sequence[Mapping[str, Any]]) -> None:
        # Before a pull knows its size there is nothing to draw.
        here = {str(pull.get("reference")): pull for pull in pulls if pull.get("bytes_total")}
        if self._progress is None:
            if not here:
                return
            self._progress, self._is_ours = new_progress(), True
            self._progress.start()
        for name, pull in here.items():
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=None, info="")
            total = int(pull.get("bytes_total") or 0)
            self._progress.update(
                self._tasks[name],
                total=total or None,
                completed=int(pull.get("bytes_done") or 0),
                description=f"{pull.get('phase')} {name}",
                info=f"{size(int(pull.get('bytes_done') or 0))} of {size(total)}",
            )
        for name in [name for name in self._tasks if name not in here]:
            self._progress.remove_task(self._tasks.pop(name))


class PullWatch:
    """Shows the pulls of the agents behind a Marathon. What cannot be asked is not shown: waiting continues without."""

    def __init__(self, marathon: Marathon, progress: Progress | None = None) -> None:
        self._marathon, self._display = marathon, PullDisplay(progress)
        self._mesos: Mesos | None = None
        self._silent = False

    def look(self) -> None:
        """Ask all agents for their progress, and show it."""
        if self._silent:
            return
        try:
            if self._mesos is None:
                self._mesos = self._marathon.mesos()
            pulls = [pull for _, agent in self._mesos.agents() for pull in _pulls(agent)]
        except MesosGpuError:
            self._silent = True
            return
        self._display.show(pulls, time.monotonic())

    def close(self) -> None:
        """Take it all from the screen, and close connections."""
        self._display.close()
        if self._mesos is not None:
            self._mesos.close()


def _pulls(agent: HttpClient) -> list[Mapping[str, Any]]:
    answer = agent.ask("GET", "/images")
    found = agent.read(answer) if answer.ok else None  # an agent of Mesos' own does not know it
    return list(found.get("pulls") or []) if isinstance(found, dict) else []
