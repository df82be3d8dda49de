"""`mesos-gpu task log`: what tasks write, of those that run and of those that ran last."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import NamedTuple

import click

from marathon_cli.changes.rollout import failure_text
from marathon_cli.clients.marathon import ENDED, Jobs, Marathon, runs_of
from marathon_cli.clients.mesos import Mesos
from marathon_cli.clients.task_names import TaskRef, matching
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import target_options
from marathon_cli.screen.arguments import Whole
from marathon_cli.screen.output import say
from marathon_cli.show import logs as following
from marathon_cli.show.logs import inside
from mesos_gpu.errors import Conflict, InvalidApp, NotFound, Refused, Unavailable
from mesos_gpu.marathon.definitions.app_ids import canonical_id
from mesos_gpu.marathon.why.failure import failing, pod_document

_PAUSE_S = 0.5


@click.command()
@click.argument("name", metavar="APP_OR_TASK")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Keep following until the task ends; Ctrl-C stops it.")
@click.option("--stderr", "stderr_file", is_flag=True, help="Show stderr, not stdout.")
@click.option("--both", is_flag=True, help="Show stdout, and stderr on stderr, as `docker logs` does.")
@click.option("--completed", is_flag=True, help="Also of tasks that have ended.")
@click.option("--lines", "-n", type=Whole(min=0), metavar="N", help="Start N lines before the end.")
@target_options
@pass_console
def log(
    console: Console,
    name: str,
    file: str | None,
    follow: bool,
    stderr_file: bool,
    both: bool,
    completed: bool,
    lines: int | None,
) -> None:
    """Print what a task writes: the file stdout of its sandbox, or another FILE there.

    For an app or a pod, of all its tasks; of the one that failed last when none runs, or none has written anything yet
    and it failed lately. For a job, of its runs; of the last one
    when none is running. A task of another framework is named by its id, the beginning of one, or a pattern.
    """
    if file is not None and stderr_file:
        raise click.UsageError("give a FILE or --stderr, not both")
    marathon = console.marathon()
    mesos = console.mesos(marathon)
    names = ["stdout", "stderr"] if both and file is None and not stderr_file else []
    paths = [inside(path) for path in names or [file or ("stderr" if stderr_file else "stdout")]]
    while True:
        wanted = _all_tasks(mesos, name) if completed else _tasks(marathon, mesos, name)
        try:
            boxes = [mesos.sandbox(one.id, one.agent_id) for one in wanted]
        except NotFound as error:
            failure = wanted[0].failure
            if failure is not None:
                raise NotFound(f"{error}; it ended before it could write anything: {failure}") from None
            if not follow or not wanted[0].known:
                raise
            boxes = []  # it is being started
        if boxes:
            break
        if not follow:
            raise Conflict(f"{name} has no task yet: it waits for resources, or for the end of a delay")
        time.sleep(_PAUSE_S)
    logs = following.still_there([following.Log.of(box, path, lines) for box in boxes for path in paths], say)
    if file is None and not follow and not completed and not any(log.file.size() for log in logs):
        wanted, logs = _earlier(marathon, mesos, name, wanted, lines, paths) or (wanted, logs)
    for said in dict.fromkeys(one.said for one in wanted if one.said):
        say(said)
    printer = following.Split(sys.stdout.buffer, sys.stderr.buffer if names else None, headlines=len(logs) > len(paths))
    if follow:
        for log in logs if file is not None else ():
            if log.file.size() is None:
                say(f"task {log.sandbox.task_id} has no file {file} yet: waiting for it")
        following.follow(logs, printer, mesos, sleep=time.sleep, say=_once())
        return
    missing = following.show(logs, printer)
    if missing and file is not None:
        where = "; `mesos-gpu task ls TASK` lists what there is"
        raise NotFound("\n".join(f"task {log.sandbox.task_id} has no file {file}" for log in missing) + where)
    for log in missing:
        if not names or log.name == names[0]:
            say(f"task {log.sandbox.task_id} has no {log.name} yet")


def _earlier(
    marathon: Marathon, mesos: Mesos, name: str, silent: list[_Wanted], lines: int | None, paths: list[str]
) -> tuple[list[_Wanted], list[following.Log]] | None:
    """Return the task before those that have written nothing yet, which has failed lately, and its files.

    None where there is no such task, or nothing of it. What fails over and over has just been started at most looks.
    """
    failed = _failed_lately(marathon, name)
    if failed is None or any(one.id == failed.id for one in silent):
        return None
    try:
        box = mesos.sandbox(failed.id, failed.agent_id)
    except (NotFound, Unavailable):
        return None
    logs = [following.Log.of(box, path, lines) for path in paths]
    if not any(log.file.size() for log in logs):
        return None
    new = ", ".join(one.id for one in silent)
    said = f"{new} {'has' if len(silent) == 1 else 'have'} written nothing yet; this is the last one that failed: "
    return [failed._replace(said=said + str(failed.failure))], logs


def _once() -> Callable[[str], None]:
    """Return what says each sentence once: two files of a task tell the same of it."""
    said: set[str] = set()

    def tell(sentence: str) -> None:
        if sentence not in said:
            said.add(sentence)
            say(sentence)

    return tell


class _Wanted(NamedTuple):
    """A task to show: `known` to Marathon or only by its id; `failure` when it is an app's last failed one.

    `said` is what is to be known before.
    """

    id: str
    agent_id: str | None = None
    known: bool = True
    failure: str | None = None
    said: str = ""


def _tasks(marathon: Marathon, mesos: Mesos, name: str) -> list[_Wanted]:
    """Return the tasks that `name` means; none when its app has had none yet. Raises NotFound."""
    for item in marathon.tasks():
        if item.get("id") == name:
            return [_Wanted(name, item.get("slaveId"))]
    try:
        app = marathon.app(canonical_id(name))
    except (NotFound, InvalidApp):
        if ".instance-" in name:
            # Marathon forgets tasks that have ended; their agent still has the files.
            return [_Wanted(name, known=False)]
        runs = _runs(marathon, name)
        if runs:
            return runs
        other = _all_tasks(mesos, name, ended=False)
        if other:
            return other
        ended = _of_pod(marathon, name)
        if ended is not None:
            return ended
        raise NotFound(_unknown(marathon, name)) from None
    placed = [_Wanted(str(item["id"]), item["slaveId"]) for item in app.get("tasks") or [] if item.get("slaveId")]
    if placed:
        return sorted(placed)
    failure = app.get("lastTaskFailure")
    if not failure:
        return []
    text = failure_text(failure)
    said = f"no task of {name} runs; this is the last one that failed: {text}"
    return [_Wanted(str(failure["taskId"]), failure.get("slaveId"), failure=text, said=said)]


def _runs(marathon: Marathon, name: str) -> list[_Wanted]:
    """Return the tasks of a job's runs, else of its last run; none when there is no such job, or no run of it.

    Raises Conflict when the job has had no run yet.
    """
    try:
        runs = runs_of(Jobs(marathon).show(name, embed=("history", "activeRuns")))
    except (NotFound, Refused, InvalidApp):  # a Marathon without jobs says so, too
        return []
    active = [task for run in runs if run["status"] not in ENDED for task in run.get("tasks") or []]
    if active:
        return [_Wanted(_task_id(task)) for task in active]
    last = next((run for run in runs if run.get("tasks")), None)
    if last is None:
        raise Conflict(f"job {name} has not run yet; `mesos-gpu job run {name}` runs it now")
    said = f"no run of {name} is running; this is the last one, {last['id']}: {last['status']}"
    return [_Wanted(_task_id(task), known=False, said=said) for task in last["tasks"]]


def _of_pod(marathon: Marathon, name: str) -> list[_Wanted] | None:
    """Return the task of a pod that failed last, none when it had none; None when there is no such pod."""
    try:
        status = marathon.pod(canonical_id(name))
    except (NotFound, Refused, InvalidApp):  # a Marathon without pods says so, too
        return None
    failure = pod_document(status.get("spec") or {}, status).get("lastTaskFailure")
    if failure is None:
        return []
    text = failure_text(failure)
    said = f"no task of pod {name} runs; this is the last one that failed: {text}"
    return [_Wanted(failure["taskId"], known=False, failure=text, said=said)]


def _failed_lately(marathon: Marathon, name: str) -> _Wanted | None:
    """Return the task of an app or a pod that failed last, if that was lately, and its own fault."""
    try:
        app = marathon.app(canonical_id(name))
    except (NotFound, InvalidApp):
        try:
            status = marathon.pod(canonical_id(name))
        except (NotFound, Refused, InvalidApp):
            return None
        app = pod_document(status.get("spec") or {}, status)
    if failing(app, running=0, wanted=1, now=datetime.now(timezone.utc)) is None:
        return None
    failure = app["lastTaskFailure"]
    return _Wanted(str(failure["taskId"]), failure.get("slaveId"), known=False, failure=failure_text(failure))


def _task_id(task: object) -> str:
    """Return the id of a task of a run: Metronome lists objects while it continues, and ids in its history."""
    return str(task.get("id") if isinstance(task, dict) else task)


def _all_tasks(mesos: Mesos, name: str, *, ended: bool = True) -> list[_Wanted]:
    """Return the tasks of any framework that `name` means, with `ended` also those. Raises NotFound, with `ended`."""
    tasks = [TaskRef.of(task) for task in mesos.tasks()]
    found = [_Wanted(one.id, one.agent_id, known=False) for one in matching(tasks, name) if ended or not one.ended]
    if ended and not found:
        raise NotFound(f"the master knows no task {name}, running or ended")
    return found


def _unknown(marathon: Marathon, name: str) -> str:
    ids = [str(item.get("id")) for item in marathon.apps()]
    near = difflib.get_close_matches(f"/{name.strip('/')}", ids, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; `mesos-gpu task list` shows what there is"
    return f"there is no app, pod, job or task {name}{hint}"
