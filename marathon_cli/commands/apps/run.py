"""`mesos-gpu run`: a command on a GPU, once."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from marathon_cli.api.apps import Apps
from marathon_cli.clients import detach_keys
from marathon_cli.clients.client import Marathon
from marathon_cli.clients.news import News
from marathon_cli.clients.sandbox import Mesos
from marathon_cli.commands.apps.run_words import (
    ImageOrCommand,
    kubectl_options,
    labels_of,
    other_devices,
    read_words,
    refuse_what_no_run_can,
    share_of,
    variable,
    whole_gpus,
    with_limits,
)
from marathon_cli.commands.tasks.task_exec import DETACHED, UNKNOWN, container_of, find_task
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import target_options
from marathon_cli.oneoff import oneoff
from marathon_cli.oneoff.oneoff import document
from marathon_cli.oneoff.oneoff_run import OneOff, removed_or_said
from marathon_cli.oneoff.trace import Trace
from marathon_cli.screen import terminal
from marathon_cli.screen.numbers import Number, Whole, WholeGpus
from marathon_cli.screen.output import say
from marathon_cli.show.pulls import PullWatch
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError

_NAME = re.compile(r"/?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(/[a-z0-9]([a-z0-9.-]*[a-z0-9])?)*")


@click.command(cls=ImageOrCommand, context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="IMAGE [COMMAND]... | -- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("--gpus", type=WholeGpus(min=0), metavar="N", help="Whole GPUs; default: 1, or 0 with --gpu-mem.")
@click.option(
    "--nodes",
    type=Whole(min=1),
    default=1,
    metavar="N",
    help="On so many machines at once, which all start or none (docs/do/gangs.md); --gpus and the rest are for each.",
)
@click.option(
    "--device",
    "devices",
    metavar="NAME",
    multiple=True,
    help="A device by its CDI name, vendor.com/class=name; nvidia.com/gpu=0 stands for one GPU, whichever is free. "
    "May be repeated.",
)
@click.option(
    "--gpu-mem", metavar="GIB", help="A part of a GPU that other tasks use too: this much of its memory, such as 6GiB."
)
@click.option(
    "--gpu-weight", type=Whole(min=1), metavar="N", help="The share's weight in scheduling, 1 to 25; default: 1."
)
@click.option("--gpu-high-priority", is_flag=True, help="Serve it before the GPU's other tasks while it has work.")
@click.option("--cpus", type=Number(min=0.001), default=1.0, show_default=True, metavar="N", help="CPUs.")
@click.option("--mem", type=Number(min=1), default=1024, show_default=True, metavar="MIB", help="Memory in MiB.")
@click.option("--disk", type=Number(min=0), default=0, metavar="MIB", help="Disk in MiB.")
@click.option("--env", "-e", "variables", metavar="NAME=VALUE", multiple=True, help="Set a variable; may be repeated.")
@click.option(
    "--volume", "-v", "volumes", metavar="FOLDER:PATH[:ro]", multiple=True, help="Mount a folder of the machine."
)
@click.option(
    "--constraint",
    "constraints",
    metavar="RULE",
    multiple=True,
    help="Where it may run, such as gpu_model=Tesla-T4 or rack:LIKE:r[12].",
)
@click.option("--label", "labels", metavar="NAME=VALUE", multiple=True, help="Label its app; may be repeated.")
@click.option("--labels", "-l", "label_lists", metavar="NAME=VALUE,...", multiple=True, help="Several labels.")
@click.option(
    "--driver/--no-driver",
    "driver",
    default=True,
    show_default=True,
    help="Give a GPU task in an image the NVIDIA driver, whatever the image says.",
)
@click.option("--user", "-u", metavar="USER", help="Run it as this user.")
@click.option("--interactive", "-i", is_flag=True, help="Pass standard input on.")
@click.option(
    "--tty", "-t", is_flag=True, help="Give it a terminal; Ctrl-C then goes to the command, not to mesos-gpu."
)
@click.option("--name", metavar="NAME", help="What its app is called; default: after what it runs.")
@click.option(
    "--rm/--no-rm", "remove", default=True, show_default=True, help="Remove the app afterwards, or only stop it."
)
@click.option("--timeout", type=Number(min=0), default=0, metavar="SECONDS", help="How long it may take to start.")
@kubectl_options
@target_options
@pass_console
def run(
    console: Console, /, words: tuple[str, ...], variables: tuple[str, ...], labels: tuple[str, ...], **options: Any
) -> int:
    """Run a command once, on GPUs of its own, and exit with its status.

    In IMAGE, or behind -- with the machine's own files. What it writes is shown, and it is removed when it has ended or
    Ctrl-C is typed. With -it a terminal is attached, and the image's ENTRYPOINT is not used: COMMAND, else sh, runs.

    \b
      mesos-gpu run -- nvidia-smi
      mesos-gpu run --gpus 2 nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi -L
      mesos-gpu run -it nvidia/cuda:12.4.1-base-ubuntu22.04 bash
      mesos-gpu run smi --image=nvidia/cuda:12.4.1-base-ubuntu22.04 --limits=nvidia.com/gpu=2 -- nvidia-smi
    """
    refuse_what_no_run_can(options)
    image, argv, called = read_words(words, options["image"])
    source = click.get_current_context().get_parameter_source
    options = with_limits(options, lambda name: source(name) is not ParameterSource.DEFAULT)
    options["name"] = options["name"] or called
    if image is None and options["volumes"]:
        raise BadInput("without an image a command sees the machine's own files; -v needs an IMAGE")
    hold = options["interactive"] or options["tty"]
    if options["interactive"] and options["tty"] and not terminal.is_terminal(0):
        raise BadInput("-t needs a terminal to type in, and standard input is none; leave -t out to pipe into it")
    if hold and options["nodes"] > 1:
        raise BadInput("-i and -t are for one container: leave --nodes out")
    if options["name"] is not None and not _NAME.fullmatch(options["name"]):
        raise BadInput(f"--name {options['name']!r}: a name has lower-case letters, digits, - and ., as in train-2")
    share = share_of(options)
    order = oneoff.Order(
        name=(options["name"] or oneoff.name_of(image, argv, os.urandom(3).hex())).strip("/"),
        image=image,
        argv=argv,
        nodes=options["nodes"],
        gpus=whole_gpus(options, share),
        share=share,
        cpus=options["cpus"],
        mem_mib=options["mem"],
        disk_mib=options["disk"],
        env=dict(variable(text) for text in variables),
        volumes=[oneoff.volume(text) for text in options["volumes"]],
        devices=other_devices(options["devices"]),
        constraints=[oneoff.constraint(text) for text in options["constraints"]],
        user=options["user"],
        labels=labels_of(labels, options["label_lists"]),
        driver=options["driver"],
        hold=hold,
        entrypoint=options["entrypoint"],
    )
    return _carry_out(console, order, options)


def _carry_out(console: Console, order: Any, options: dict[str, Any]) -> int:
    """Add the app, be there while it runs, and remove it, whatever happens."""
    trace = Trace(os.environ, time.time)
    trace.mark("program begun")
    marathon = console.marathon()
    mesos = console.mesos(marathon)

    def concerns(event: Mapping[str, Any]) -> bool:
        if event.get("appId") != f"/{order.name}":
            return False
        trace.mark(str(event.get("taskStatus") or event.get("eventType")))
        return True

    news = News(marathon, concerns)
    pulls = PullWatch(marathon)
    one = OneOff(marathon, mesos, order.name, time.monotonic, news, say, pulls.look)
    ours = True
    with news, _ending_is_an_exception():
        try:
            try:
                Apps(marathon).add(document(order))
            except Conflict:
                ours = False  # somebody else's app of that name is not ours to remove
                raise
            trace.mark("asked for")
            _warn(marathon, mesos, document(order))  # now, while its task is being started
            task = one.task(options["timeout"], running=order.hold)
            pulls.close()
            if order.hold:
                return _hands_on(console, order, task.id, options)
            tasks = [task] if order.nodes == 1 else one.all_tasks(task)
            one.follow(tasks, sys.stdout.buffer, sys.stderr.buffer)
            trace.mark("output shown")
            status = one.end_of_all(tasks, order.nodes)
            trace.mark("status known")
            return status
        finally:
            pulls.close()
            if ours:
                with _nothing_interrupts():
                    if removed_or_said(one, keep=not options["remove"]):
                        console.goes_on = f"{order.name} is {'removed' if options['remove'] else 'stopped'}"
                    trace.mark("removed")
            if (told := trace.line()) is not None:
                say(told)


def _warn(marathon: Marathon, mesos: Mesos, app: Mapping[str, Any]) -> None:
    """Say that no agent could ever run an app; it waits, for there may be another one soon."""
    from mesos_gpu.marathon.matching.machines import read_machines
    from mesos_gpu.marathon.why.request import rules_shown
    from mesos_gpu.marathon.why.warnings import about_place

    try:
        config = marathon.config()
        agents = read_machines(mesos.slaves())
    except MesosGpuError:
        return
    for sentence in about_place(app, agents, rules_shown(config, {})) if agents else ():
        say(f"warning: {sentence}")


def _hands_on(console: Console, order: Any, task_id: str, options: dict[str, Any]) -> int:
    """Run the command in the container of the task that holds the GPUs; return its exit status."""
    # Here: sessions need HTTP (ssl) and terminals, which most runs and --help do without.
    from marathon_cli.oneoff.session import Wish, execute

    agent, found = find_task(console, task_id)
    keys = detach_keys.keys(os.environ.get("DCOS_TASK_ESCAPE_SEQUENCE") or detach_keys.DETACH_KEYS)
    wish = Wish(options["interactive"], options["tty"], keys)
    words = order.argv or ["sh"]
    end = execute(agent, container_of(found), words, wish, user=order.user, environment=order.env)
    if end.detached:
        say(f"\ndetached; {words[0]} was ended")
        return DETACHED
    if end.status is None:
        say(f"how {words[0]} ended is not known: the agent does not tell")
        return UNKNOWN
    return end.status


@contextmanager
def _ending_is_an_exception() -> Iterator[None]:
    """Make SIGTERM and SIGHUP (the terminal is gone) end us the way Ctrl-C does: with what is ours removed."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _nothing_interrupts() -> Iterator[None]:
    """Let nothing end us while the app is being removed: who types Ctrl-C twice wants it gone, too."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
