"""The commands behind aliases: those of the registry under other names, and those that act by the kind of a NAME."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.aliases.table import KINDS, NOTHING, Alias
from marathon_cli.console.console import Console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.arguments import app_id, nearest
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError, NotFound, Refused

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Marathon


Find = Callable[[str], click.Command]
"""Returns the command of the registry at a path."""


def renamed(alias: Alias, path: str, command: click.Command) -> click.Command:
    """Return a command under another name, whose options have the names of the other tool as well."""
    made = copy.copy(command)
    made.name = alias.names[0]
    made.epilog = f"Here it is `mesos-gpu {path}`. {command.epilog or ''}".strip()
    made.params = [copy.copy(parameter) for parameter in command.params]
    made.params += mapped(alias, made.params)
    return made


def mapped(alias: Alias, params: Iterable[click.Parameter]) -> list[click.Parameter]:
    """Give options their names in another tool; return those that are to be added to them."""
    options = [parameter for parameter in params if isinstance(parameter, click.Option)]
    added: list[click.Parameter] = []
    for name, meant in alias.options.items():
        flag = name.removesuffix("=")
        for option in options:
            option.opts = [known for known in option.opts if known != flag or known == meant]
        if meant.startswith("--"):
            own = next(option for option in options if meant in option.opts)
            own.opts = [*own.opts, flag]
            continue
        effect = _words(meant, options) if meant and not meant.startswith("!") else _told(meant)
        hidden = [flag, f"_{flag.strip('-')}"]
        takes_none = not name.endswith("=")
        added.append(click.Option(hidden, is_flag=takes_none, expose_value=False, hidden=True, callback=effect))
    return added


def _told(meant: str) -> Callable[..., None]:
    """Return what an option does that changes nothing: where that is news, it is said."""

    def effect(_context: click.Context, _option: click.Parameter, value: Any) -> None:
        if value and meant != NOTHING:
            say(f"note: {meant[1:]}")

    return effect


def _words(meant: str, options: Iterable[click.Option]) -> Callable[..., None]:
    """Return what an option does that stands for another one with its value."""
    name, _, text = meant.partition(" ")
    other = next(option for option in options if name in option.opts)

    def effect(context: click.Context, _option: click.Parameter, value: Any) -> None:
        if value and other.callback is not None:
            other.callback(context, other, other.type_cast_value(context, text))

    return effect


def words(alias: Alias, args: list[str]) -> list[str]:
    """Return the words that the command behind an alias is to read.

    `pod/NAME` and `deployment/NAME` are kubectl's ways to write NAME; an app's id that begins so is written with a
    slash in front.
    """
    end = args.index("--") if "--" in args else len(args)
    before = [_plain(word) for word in args[:end]] if isinstance(alias.means, str) else args[:end]
    return [*alias.first.split(), *before, *args[end:]]


def shows_one(alias: Alias, args: Sequence[str]) -> bool:
    """Return whether one NAME is to be shown in a form for programs: then it is the thing itself, not a list."""
    if not alias.whole or any(word in ("-w", "--watch") for word in args):
        return False
    text, names, skip = "", 0, False
    for word, following in zip(args, [*args, ""][1:], strict=True):
        if skip:
            skip = False
        elif word in ("-o", "--output"):
            text, skip = following, True
        elif word.startswith(("-o", "--output=")):
            text = word.removeprefix("--output").removeprefix("-o").removeprefix("=")
        elif word in ("-l", "--label", "--selector", "--interval"):
            return False
        elif not word.startswith("-"):
            names += 1
    return names == 1 and text.startswith(("json", "yaml"))


def _plain(word: str) -> str:
    kind, slash, name = word.partition("/")
    return name if slash and name and kind in KINDS else word


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
