"""`mesos-gpu pod`: containers that run side by side, on the GPUs of their pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

import click

from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.clients.marathon import Document, Marathon, Pods
from marathon_cli.commands.kind import (
    Kind,
    Row,
    list_command,
    read_definition,
    remove_command,
    show_command,
    update_command,
)
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.arguments import app_id, hints
from marathon_cli.screen.output import Column, Table
from marathon_cli.show.gpus import pod_gpus
from mesos_gpu.errors import Conflict, Problem
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects
from mesos_gpu.marathon.why.failure import failing, in_short, pod_document

if TYPE_CHECKING:
    from mesos_gpu.marathon.definitions.app_settings import AppRules

_INSTANCES = (Column("INSTANCE"), Column("STATUS"), Column("HOST"), Column("CONTAINERS", cut=True))


class PodKind(Kind):
    """Pods."""

    name = "pod"
    api = Pods
    columns = (
        Column("ID"),
        Column("GPUS", number=True),
        Column("INSTANCES", number=True),
        Column("STATUS", cut=True),
        Column("CONTAINERS", rank=2, cut=True),
        Column("SINCE", rank=1),
        Column("VERSION", rank=3),
        Column("ROLE", rank=3),
    )
    none = "no pods; `mesos-gpu pod add FILE` adds one"
    help: ClassVar = {
        "list": "List the pods and how they are.",
        "show": "Print everything that Marathon knows of POD: its definition and its instances.",
        "update": """Change POD by KEY=VALUE, by a file, or by both.

        \b
          mesos-gpu pod update pair scaling.instances=3
          mesos-gpu pod update pair 'containers[0].resources.gpus=2' --wait

        What is not named stays; null takes a key away.
        """,
        "remove": "Remove POD and end its instances.",
    }
    count_key = "scaling"
    server_keys = ("version",)

    def canonical(self, name: str) -> str:
        return app_id(name)

    def documents(self, marathon: Marathon, label: str | None, **filters: Any) -> list[Document]:
        terms = parse_selector(label or "")
        return [pod for pod in Pods(marathon).statuses() if selects(terms, (pod.get("spec") or {}).get("labels") or {})]

    def status(self, marathon: Marathon, name: str) -> Document:
        return Pods(marathon).status(name)

    def rows(self, marathon: Marathon, documents: Sequence[Document]) -> list[Row]:
        return [_row(pod) for pod in documents]

    def details(self, marathon: Marathon, document: Document) -> Table:
        rows = [
            [item.get("id"), item.get("status"), item.get("agentHostname", "---"), _containers(item.get("containers"))]
            for item in document.get("instances") or []
        ]
        return Table(_INSTANCES, rows)

    def names(self, document: Document) -> list[str]:
        return [str(item.get("id")) for item in document.get("instances") or []]

    def schema(self) -> Mapping[str, Any]:
        from mesos_gpu.marathon.definitions.app_schema import POD as DEFINITION

        return DEFINITION.schema

    def problems(self, document: Any, rules: AppRules) -> list[Problem]:
        from mesos_gpu.marathon.why.problems import pod_problems

        return pod_problems(document, rules)

    def with_defaults(self, document: Document, rules: AppRules) -> Document:
        from mesos_gpu.marathon.definitions.pod import read_pod

        return read_pod(document, rules)

    def consequence(self, before: Document, after: Document) -> str:
        only_scaling = all(before.get(key) == after.get(key) for key in {*before, *after} if key != "scaling")
        return "only the number of instances changes" if only_scaling else "all instances are replaced"


POD = PodKind()
list_pods, show, update, remove = list_command(POD), show_command(POD), update_command(POD), remove_command(POD)


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
    from marathon_cli.changes import rules

    source, document = read_definition(POD, file)
    marathon = console.marathon()
    if not no_validate:
        POD.check(source, document, POD.rules(marathon))
    if dry_run:
        wanted = app_id(str(document.get("id")))
        count = (document.get("scaling") or {}).get("instances", 1)
        sentence = f"Would add {wanted}: {count} x {len(document['containers'])} containers, {pod_gpus(document)} GPUs"
        console.tell(sentence, document, names=[wanted])
        return
    try:
        with rules.explained(source, document, rules.OFFLINE, marathon.url):
            change = Pods(marathon).add(document, force=force)
    except Conflict as error:
        if "already exists" in str(error):
            raise Conflict(f"{error}\n  `mesos-gpu pod update {document['id']} --file FILE` changes it") from None
        raise
    wanted = str(change.document.get("id"))
    finish(console, marathon, change, POD.targets(wanted), f"adds {wanted}", waiting, value={"id": wanted})


@click.command()
@POD.argument
@click.argument("instances", metavar="INSTANCE...", nargs=-1, required=True)
@click.option("--wipe", is_flag=True, help="Drop their persistent volumes, too.")
@output_options()
@target_options
@pass_console
def kill(console: Console, name: str, instances: tuple[str, ...], wipe: bool) -> None:
    """End instances of POD; others take their place."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, Pods(marathon).ids):
        there = {str(item.get("id")) for item in Pods(marathon).status(wanted).get("instances") or []}
    if strange := [one for one in instances if one not in there]:
        listed = ", ".join(sorted(there)) or "none"
        raise Conflict(f"{wanted} has no instance {', '.join(strange)}; there are: {listed}. None was ended")
    Pods(marathon).kill(wanted, instances, wipe=wipe)
    killed = list(instances)
    console.tell(f"Killed instances: {', '.join(killed)}", {"instances": killed}, names=killed)


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
