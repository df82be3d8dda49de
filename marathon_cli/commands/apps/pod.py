"""`mesos-gpu pod`: containers that run side by side, on the GPUs of their pod."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import click

from marathon_cli.api.pods import Pods
from marathon_cli.changes import rules
from marathon_cli.changes.change_target import ChangeTarget
from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.changes.updating import Order, agreed, read_wish, refuse_new_problems, update_command
from marathon_cli.clients.client import Marathon
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.document import check
from marathon_cli.document.definitions import without
from marathon_cli.screen.names import app_id, hints, named
from marathon_cli.screen.output import Column, Table
from marathon_cli.show.gpu_lines import pod_gpus
from mesos_gpu.errors import Conflict, InvalidApp, Problem
from mesos_gpu.marathon.definitions.app_schema import POD
from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects
from mesos_gpu.marathon.definitions.pod import read_pod
from mesos_gpu.marathon.why.failure import failing, in_short, pod_document

_NONE = "no pods; `mesos-gpu pod add FILE` adds one"
_COLUMNS = (
    Column("ID"),
    Column("GPUS", number=True),
    Column("INSTANCES", number=True),
    Column("STATUS", cut=True),
    Column("CONTAINERS", rank=2, cut=True),
    Column("SINCE", rank=1),
    Column("VERSION", rank=3),
    Column("ROLE", rank=3),
)
_SET_BY_SERVER = ("version",)
name_argument = click.argument("name", metavar="POD")


@click.command()
@click.argument("file", required=False)
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@click.option("--dry-run", is_flag=True, help="Check, say what would be created, and create nothing.")
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def add(console: Console, file: str | None, no_validate: bool, dry_run: bool, waiting: Waiting, force: bool) -> None:
    """Add the pod that FILE (JSON or YAML) defines."""
    if file is None and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe JSON in: mesos-gpu pod add pod.json")
    source = check.read_source(file or "-")
    document = check.parse(source)
    marathon = console.marathon()
    if not no_validate:
        check.check_pod(source, document, rules.rules_if_any(marathon))
    if dry_run:
        wanted = app_id(str(document.get("id")))
        count = (document.get("scaling") or {}).get("instances", 1)
        sentence = f"Would add {wanted}: {count} x {len(document['containers'])} containers, {pod_gpus(document)} GPUs"
        console.tell(sentence, document, names=[wanted])
        return
    try:
        with rules.explained(source, document, rules.OFFLINE, marathon.url):
            pod, change = Pods(marathon).add(document, force=force)
    except Conflict as error:
        if "already exists" in str(error):
            raise Conflict(f"{error}\n  `mesos-gpu pod update {document['id']} --file FILE` changes it") from None
        raise
    wanted = str(pod.get("id"))
    finish(console, marathon, change, [ChangeTarget("pod", wanted)], f"adds {wanted}", waiting, value={"id": wanted})


@click.command(name="list")
@click.argument("pod_ids", metavar="[POD]...", nargs=-1)
@selector_option
@watch_options
@output_options()
@target_options
@pass_console
def list_pods(console: Console, pod_ids: tuple[str, ...], label: str | None) -> None:
    """List the pods and how they are."""
    pods = Pods(console.marathon())
    wanted = [app_id(name) for name in pod_ids]
    terms = parse_selector(label or "")

    def look() -> None:
        there = [pod for pod in pods.statuses() if selects(terms, (pod.get("spec") or {}).get("labels") or {})]
        found = named(there, wanted, "pod")
        names = [str(pod.get("id")) for pod in found]
        console.show(found, table=lambda: Table(_COLUMNS, [_row(pod) for pod in found]), names=names, none=_NONE)

    console.repeat(look)


@click.command()
@name_argument
@output_options(default="json")
@target_options
@pass_console
def show(console: Console, name: str) -> None:
    """Print everything that Marathon knows of POD: its definition and its instances."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, lambda: _ids(marathon)):
        found = Pods(marathon).status(wanted)
    columns = (Column("INSTANCE"), Column("STATUS"), Column("HOST"), Column("CONTAINERS", cut=True))
    rows = [
        [item.get("id"), item.get("status"), item.get("agentHostname", "---"), _containers(item.get("containers"))]
        for item in found.get("instances") or []
    ]
    names = [str(item.get("id")) for item in found.get("instances") or []]
    console.show(found, table=lambda: Table(columns, rows), names=names)


@update_command(name_argument)
def update(console: Console, name: str, order: Order) -> None:
    """Change POD by KEY=VALUE, by a file, or by both.

    \b
      mesos-gpu pod update pair scaling.instances=3
      mesos-gpu pod update pair 'containers[0].resources.gpus=2' --wait

    What is not named stays; null takes a key away.
    """
    wanted = app_id(name)
    wish = read_wish(order, POD.schema, wanted, canonical=app_id)
    marathon = console.marathon()
    with hints(wanted, lambda: _ids(marathon)):
        current = Pods(marathon).show(wanted)
    before = without(current, *_SET_BY_SERVER)
    after = wish.applied(before)
    if not order.no_validate:
        known = rules.rules_if_any(marathon)
        refuse_new_problems(lambda pod: _problems(pod, known), wish.source, before, after)
    means = "only the number of instances changes" if _same_but_scaling(before, after) else "all instances are replaced"
    if not agreed(console, wanted, before, after, means, order.consent):
        return
    if Pods(marathon).show(wanted).get("version") != current.get("version"):
        raise Conflict(f"{wanted} was changed by somebody else meanwhile; nothing was done")
    with rules.explained(wish.source, dict(wish.asked), rules.OFFLINE, marathon.url):
        _, change = Pods(marathon).put(wanted, after, force=order.force)
    finish(
        console,
        marathon,
        change,
        [ChangeTarget("pod", wanted)],
        f"changes {wanted}: {means}",
        order.waiting,
        value={"id": wanted},
    )


@click.command()
@name_argument
@click.argument("instances", metavar="INSTANCE...", nargs=-1, required=True)
@click.option("--wipe", is_flag=True, help="Drop their persistent volumes, too.")
@output_options()
@target_options
@pass_console
def kill(console: Console, name: str, instances: tuple[str, ...], wipe: bool) -> None:
    """End instances of POD; others take their place."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, lambda: _ids(marathon)):
        there = {str(item.get("id")) for item in Pods(marathon).status(wanted).get("instances") or []}
    if strange := [one for one in instances if one not in there]:
        listed = ", ".join(sorted(there)) or "none"
        raise Conflict(f"{wanted} has no instance {', '.join(strange)}; there are: {listed}. None was ended")
    Pods(marathon).kill(wanted, instances, wipe=wipe)
    killed = list(instances)
    console.tell(f"Killed instances: {', '.join(killed)}", {"instances": killed}, names=killed)


@click.command()
@name_argument
@wait_options(roll_back=False)
@force_option
@output_options()
@target_options
@pass_console
def remove(console: Console, name: str, waiting: Waiting, force: bool) -> None:
    """Remove POD and end its instances."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, lambda: _ids(marathon)):
        change = Pods(marathon).remove(wanted, force=force)
    targets = [ChangeTarget("pod", wanted, gone=True)]
    finish(console, marathon, change, targets, f"removes {wanted}", waiting, value={"id": wanted})


def _ids(marathon: Marathon) -> list[str]:
    return [str(pod.get("id")) for pod in Pods(marathon).statuses()]


def _problems(pod: Mapping[str, Any], rules: AppRules) -> list[Problem]:
    found = POD.unknown_keys(pod)
    try:
        read_pod(pod, rules)
    except InvalidApp as error:
        found += error.problems
    return found


def _same_but_scaling(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return all(before.get(key) == after.get(key) for key in {*before, *after} if key != "scaling")


def _containers(containers: object) -> str:
    found = containers if isinstance(containers, list) else []
    return ", ".join(
        f"{item.get('name')} ({str(item['status']).removeprefix('TASK_').lower()})"
        if item.get("status")
        else str(item.get("name"))
        for item in found
    )


def _row(pod: Mapping[str, Any]) -> list[object]:
    spec, instances = pod.get("spec") or {}, pod.get("instances") or []
    stable = sum(item.get("status") == "STABLE" for item in instances)
    wanted = (spec.get("scaling") or {}).get("instances", 1)
    failure = failing(pod_document(spec, pod), running=stable, wanted=wanted, now=datetime.now(timezone.utc))
    return [
        pod.get("id"),
        pod_gpus(spec),
        f"{stable}/{wanted}",
        pod.get("status") if failure is None else in_short(failure),
        _containers(spec.get("containers")),
        pod.get("statusSince"),
        spec.get("version", "---"),
        spec.get("role", "---"),
    ]
