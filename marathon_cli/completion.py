"""What a shell asks while a command is typed: commands and options by click, names of what there is by asking servers.

A shell waits for us at every Tab, so servers have little time, nothing is ever said, and no answer is as good as one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from marathon_cli.aliases.table import ALIASES, Alias
from marathon_cli.console.console import Console
from marathon_cli.lazy import load, load_alias
from marathon_cli.registry import ROWS
from mesos_gpu.errors import MesosGpuError

VARIABLE = "_MESOS_GPU_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
PATIENCE_S = 2.5
"""How long names may take that servers are asked for; MESOS_GPU_COMPLETION_TIMEOUT says otherwise."""

MOST = 500
Names = Callable[[Console, str], Iterable[str]]


def script(program: click.Command, shell: str, name: str) -> str:
    """Return what a shell has to read to complete the words of our program."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"{shell} is none of {', '.join(SHELLS)}")
    return made(program, {}, name, VARIABLE).source()


def complete(program: click.Command, name: str, environ: Mapping[str, str]) -> None:
    """Answer what a shell asks in the environment; say nothing at all when it cannot be answered."""
    shell, _, instruction = environ[VARIABLE].partition("_")
    made = get_completion_class(shell)
    if made is None or instruction not in ("complete", "source"):
        return
    patience_s = _patience_s(environ)
    console = Console(settings={"connect-timeout": f"{patience_s / 5:g}", "http-timeout": f"{patience_s * 0.6:g}"})
    answer: list[str] = []

    def work() -> None:
        with contextlib.suppress(Exception, SystemExit):
            _teach(program, environ.get("COMP_WORDS", "").split())
            asked = made(program, {"obj": console}, name, VARIABLE)
            answer.append(asked.source() if instruction == "source" else asked.complete())

    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # noqa: PTH123
        # A thread, because a name server may take longer than any time-out that can be set.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(patience_s)
    for text in answer:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _patience_s(environ: Mapping[str, str]) -> float:
    try:
        return max(0.1, float(environ["MESOS_GPU_COMPLETION_TIMEOUT"]))
    except (KeyError, ValueError):
        return PATIENCE_S


def _teach(program: click.Command, words: list[str]) -> None:
    """Let the parameters of the program and of the command that is typed know what they may be."""
    typed = set(words)
    rows = [row for row in ROWS if row.where and typed.issuperset(row.path.split())]
    aliases = [alias for alias in ALIASES if _is_typed(alias, typed)]
    shown = {alias.whole for alias in aliases}
    rows += [row for row in ROWS if row.path in shown]
    commands = [*map(load, rows), *(load_alias(alias.path) for alias in aliases)]
    for command in (program, *commands):
        for parameter in command.params:
            names = _names_for(parameter)
            if names is not None:
                setattr(parameter, "shell_complete", _completer(names))  # noqa: B010 - mypy takes it for a method


def _is_typed(alias: Alias, typed: set[str]) -> bool:
    """Return whether a line may mean an alias: what stands before its last word is there, and that, in any spelling."""
    return typed.issuperset(alias.path.split()[:-1]) and (not alias.listed or not typed.isdisjoint(alias.names))


def _completer(names: Names) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(context: click.Context, incomplete: str) -> list[CompletionItem]:
        if names is _files:
            return [CompletionItem(incomplete, type="file")]
        found: dict[str, None] = {}
        with context.scope():
            known = list(names(context.ensure_object(Console), incomplete))
        for item in known:
            if item.startswith(incomplete) and item.isprintable() and not any(c in item for c in " \t\"'\\$`"):
                found[item] = None
        return [CompletionItem(item) for item in sorted(found)[:MOST]]

    return complete


def _names_for(parameter: click.Parameter) -> Names | None:
    if isinstance(parameter, click.Option):
        return _profiles if parameter.name == "profile" else None
    shown = (parameter.metavar or parameter.name or "").upper().replace("[", "").replace("]", "").replace("...", "")
    return _BY_METAVAR.get(shown)


def _ids_of(kind: str) -> Names:
    """Return what lists the ids of a kind of definition, with the leading slash if it was typed."""

    def names(console: Console, incomplete: str) -> Iterable[str]:
        from marathon_cli.clients import marathon

        ids = [one for one in getattr(marathon, kind)(console.marathon()).ids() if one != "/"]
        return ids if incomplete.startswith("/") else [one.lstrip("/") for one in ids]

    return names


_apps, _pods, _groups, _jobs = map(_ids_of, ("Apps", "Pods", "Groups", "Jobs"))


def _tasks(console: Console, _incomplete: str) -> Iterable[str]:
    from marathon_cli.clients.task_names import TaskRef

    return [one.id for one in map(TaskRef.of, console.mesos().tasks()) if not one.ended]


def _apps_and_tasks(console: Console, incomplete: str) -> Iterable[str]:
    apps = list(_apps(console, incomplete))
    # Ids of tasks begin as their app does; they are in the way until that is typed.
    begun = any(incomplete.startswith(f"{app.strip('/').replace('/', '_')}.") for app in apps)
    return _tasks(console, incomplete) if begun else apps


def _things(console: Console, incomplete: str) -> Iterable[str]:
    """Names that have a kind: apps, pods and jobs, and tasks once one is begun."""
    found = list(_apps_and_tasks(console, incomplete))
    for names in (_pods, _jobs):
        with contextlib.suppress(MesosGpuError):  # a Marathon without them
            found += names(console, incomplete)
    return found


def _deployments(console: Console, _incomplete: str) -> Iterable[str]:
    return _ids(console.marathon().deployments())


def _ids(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(one.get("id")) for one in documents]


def _agents(console: Console, _incomplete: str) -> Iterable[str]:
    from mesos_gpu.mesos.clients.agents import names, read_agent

    return names([read_agent(one) for one in console.mesos().slaves()]).values()


def _profiles(_console: Console, _incomplete: str) -> Iterable[str]:
    from marathon_cli.connection.profiles import ProfileStore

    return ProfileStore.of(os.environ).read().profiles


def _keys(_console: Console, _incomplete: str) -> Iterable[str]:
    from marathon_cli.connection.settings import BY_NAME

    return BY_NAME


def _files(_console: Console, _incomplete: str) -> Iterable[str]:
    return ()


_BY_METAVAR: Mapping[str, Names] = {
    "APP": _apps,
    "APP_OR_TASK": _apps_and_tasks,
    "TASK": _tasks,
    "AGENT": _agents,
    "PROFILE": _profiles,
    "KEY": _keys,
    "FILE": _files,
    "DEPLOYMENT": _deployments,
    "GROUP": _groups,
    "POD": _pods,
    "JOB": _jobs,
    "NAME": _things,
}
