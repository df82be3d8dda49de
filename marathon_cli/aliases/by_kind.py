"""Commands that do to a NAME what its kind asks for: `stop` an app, a pod, a job's runs or a task."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from marathon_cli.aliases.made import Find, mapped
from marathon_cli.aliases.table import KINDS, Alias
from marathon_cli.console.console import Console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.arguments import app_id, nearest
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError, NotFound, Refused

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Marathon

_METAVAR = {"app": "APP", "pod": "POD", "job": "JOB", "task": "TASK"}


def by_kind(alias: Alias, find: Find) -> click.Command:
    """Return the command that an alias with a mapping of kinds stands for. `find` returns commands of the registry."""
    means = alias.means
    if isinstance(means, str):
        raise TypeError(f"{alias.path} is one command: {means}")

    def act(names: tuple[str, ...], force: bool = False) -> int:
        console = click.get_current_context().ensure_object(Console)
        failed = 0
        for name in names:
            try:
                _act(console, alias, means, name, find, force=force)
            except MesosGpuError as error:
                if len(names) == 1:
                    raise
                say(f"mesos-gpu: {name}: {error}")
                failed = 1
        return failed

    act.__doc__ = f"{alias.help}\n\n{_said(means)}"
    metavar = next(iter(_METAVAR[kind] for kind in means)) if len(means) == 1 else "NAME"
    command = click.argument("names", metavar=f"{metavar}...", nargs=-1, required=True)(act)
    if alias.only_ended:
        command = click.option("--force", "-f", is_flag=True, help="Also what still runs.")(command)
    made = click.command(name=alias.names[0])(output_options()(target_options(command)))
    made.params += mapped(alias, made.params)
    return made


def _said(means: Mapping[str, Sequence[str]]) -> str:
    """Return what is done to each kind, for help."""
    lines = [
        f"  {kind:5}{' and '.join('`mesos-gpu ' + line.replace('{}', _METAVAR[kind]) + '`' for line in lines)}"
        for kind, lines in means.items()
    ]
    return "\n".join(["\b", *lines])


def _act(
    console: Console, alias: Alias, means: Mapping[str, Sequence[str]], name: str, find: Find, *, force: bool
) -> None:
    kind, name, runs = thing(console.marathon(), name, tuple(means))
    if alias.only_ended and runs and not force:
        raise Conflict(
            f"{kind} {name} runs; `mesos-gpu stop {name}` ends that, `mesos-gpu rm -f {name}` removes it, too"
        )
    asked = console.output
    for count, line in enumerate(means[kind]):
        if count:
            click.echo()
        console.output = asked  # what one line's -o asks for is not for the next
        _run([word.replace("{}", name) for word in shlex.split(line)], find)


def _run(words: list[str], find: Find) -> None:
    """Run a command of the registry as if these words had been typed."""
    here = click.get_current_context()
    length = next(n for n in (2, 1) if _is_command(words[:n], find))
    command = find(" ".join(words[:length]))
    with command.make_context(command.name, words[length:], parent=here) as context:
        command.invoke(context)


def _is_command(words: Sequence[str], find: Find) -> bool:
    try:
        return not isinstance(find(" ".join(words)), click.Group)
    except KeyError:
        return False


def thing(marathon: Marathon, name: str, kinds: Sequence[str]) -> tuple[str, str, bool]:
    """Return the kind of what a name means (one of `kinds`), its name as commands take it, and whether it runs.

    `job/NAME` says the kind; without, apps come before pods, jobs and tasks. Raises NotFound with the nearest name.
    """
    word, slash, rest = name.partition("/")
    said = KINDS.get(word) if slash and rest else None
    if said == "agent":
        raise BadInput(f"{name}: this is for {_list(kinds)}, not for nodes; `mesos-gpu agent --help` has theirs")
    wanted = [kind for kind in kinds if said in (None, kind) or (said == "task" and kind == "pod")]
    name = rest if said is not None else name
    known: list[str] = []
    for kind in ("app", "pod", "job", "task"):
        if kind in wanted and (found := _LOOKS[kind](marathon, name, known)) is not None:
            return kind, found[0], found[1]
    raise NotFound(f"there is no {_list(wanted or kinds)} {name}{nearest(name.strip('/'), known)}")


def _app(marathon: Marathon, name: str, known: list[str]) -> tuple[str, bool] | None:
    apps = {str(app.get("id")): app for app in marathon.apps()}
    known += [other.strip("/") for other in apps]
    try:
        found = apps.get(app_id(name))
    except BadInput:
        return None
    return None if found is None else (str(found["id"]), bool(found.get("tasksRunning") or found.get("instances")))


def _pod(marathon: Marathon, name: str, known: list[str]) -> tuple[str, bool] | None:
    from marathon_cli.clients.marathon import Pods

    try:
        pods = {str(pod.get("id")): pod for pod in Pods(marathon).statuses()}
        known += [other.strip("/") for other in pods]
        found = pods.get(app_id(name))
    except (NotFound, Refused, BadInput):  # a Marathon without pods
        return None
    return None if found is None else (str(found["id"]), bool(found.get("instances")))


def _job(marathon: Marathon, name: str, known: list[str]) -> tuple[str, bool] | None:
    from marathon_cli.clients.marathon import Jobs

    try:
        jobs = {str(job.get("id")): job for job in Jobs(marathon).all()}
    except (NotFound, Refused):  # a Marathon without jobs
        return None
    known += jobs
    found = jobs.get(name)
    return None if found is None else (name, bool(found.get("activeRuns")))


def _task(marathon: Marathon, name: str, known: list[str]) -> tuple[str, bool] | None:
    from marathon_cli.clients.task_names import SHORTEST

    ids = [str(task.get("id")) for task in marathon.tasks()]
    known += ids
    meant = (
        [one for one in ids if one == name]
        or [one for one in ids if one.startswith(name)]
        or [one for one in ids if len(name) >= SHORTEST and name in one]
    )
    if len(meant) > 1:
        raise BadInput(f"{name} means {len(meant)} tasks: {', '.join(meant)}")
    return (meant[0], True) if meant else None


_LOOKS = {"app": _app, "pod": _pod, "job": _job, "task": _task}


def _list(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"
