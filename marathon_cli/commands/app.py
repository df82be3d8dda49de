"""`mesos-gpu app`: what runs, in how many copies, on how many GPUs.

Every `app` command imports this module: what only some of them need is imported in functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import click

from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.clients.marathon import Apps, Document, Locked, Marathon
from marathon_cli.commands.kind import (
    Command,
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
from marathon_cli.document import definitions
from marathon_cli.screen.arguments import Whole, app_id, hints
from marathon_cli.screen.output import Column, Table, columns, say
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError, NotFound, Problem, Unavailable

if TYPE_CHECKING:
    from marathon_cli.clients.mesos import Cluster
    from marathon_cli.document.check import Source
    from mesos_gpu.marathon.definitions.app_settings import AppRules
    from mesos_gpu.marathon.matching.machines import Machine

ASKED = 8
"""How many agents with GPUs are asked for an image whose name says nothing."""


class AppKind(Kind):
    """Apps."""

    name = "app"
    api = Apps
    columns = (
        Column("ID"),
        Column("GPUS", number=True),
        Column("DEVICES", rank=1, cut=True),
        Column("CPUS", number=True, rank=1),
        Column("MEM", number=True, rank=1),
        Column("TASKS", number=True),
        Column("STATUS", cut=True),
        Column("HEALTH", rank=2),
        Column("DEPLOYMENT"),
        Column("WAITING", rank=2),
        Column("CONTAINER", rank=4),
        Column("ROLE", rank=4),
        Column("CMD", rank=3, cut=True),
    )
    none = "no apps; `mesos-gpu app add FILE` adds one, `mesos-gpu run -- nvidia-smi` runs a command once"
    help: ClassVar = {
        "list": "List the apps.",
        "show": "Print everything that Marathon knows of APP.",
        "update": """Change APP by KEY=VALUE, by a file, or by both.

        \b
          mesos-gpu app update train instances=3 env.MODE=fast
          mesos-gpu app update train container.docker.image=train:2 --wait --rollback-on-failure
          mesos-gpu app update train labels.old=null
          mesos-gpu app update train --file train.yaml --diff --yes

        Keys may lead inwards, and what is not named stays; null takes a key away. `version=...` goes back to an
        earlier version (-1 is the one before). On a terminal the difference is shown first.
        """,
        "remove": "Remove APP and end its tasks.",
    }
    version_option = ("VERSION", "An earlier version: its timestamp, or -1 for the one before this.")
    count_key = "instances"
    older_forms = definitions.OLDER_FORMS

    def canonical(self, name: str) -> str:
        return app_id(name)

    def documents(self, marathon: Marathon, label: str | None, **filters: Any) -> list[Document]:
        return marathon.apps(label=label, failures=True)

    def resolved(self, marathon: Marathon, name: str, text: str) -> str:
        """Return the version that a text means: a timestamp, or -n for the n-th before the present one."""
        try:
            back = int(text)
        except ValueError:
            return text
        if back >= 0:
            raise BadInput(f"{text} is not a version: give its timestamp, or -1 for the one before the present one")
        versions = Apps(marathon).versions(name)
        if -back >= len(versions):
            raise BadInput(f"{name} has {len(versions)} versions; {text} goes too far back")
        return versions[-back]

    def version(self, marathon: Marathon, name: str, version: str) -> Document:
        return Apps(marathon).version(name, version)

    def rows(self, marathon: Marathon, documents: Sequence[Document]) -> list[Row]:
        beside = _beside(marathon, documents)
        return [_row(item, beside) for item in documents]

    def schema(self) -> Mapping[str, Any]:
        from mesos_gpu.marathon.definitions.app_schema import APP as DEFINITION

        return DEFINITION.schema

    def rules(self, marathon: Marathon) -> AppRules:
        from marathon_cli.changes.rules import rules_of

        return rules_of(marathon.info())

    def problems(self, document: Any, rules: AppRules) -> list[Problem]:
        from mesos_gpu.marathon.why.problems import app_problems

        return app_problems(document, rules)

    def with_defaults(self, document: Document, rules: AppRules) -> Document:
        from mesos_gpu.marathon.definitions.app import read_app

        return read_app(document, rules)

    def remove_option(self, command: Command) -> Command:
        return click.option(
            "--force/--no-force",
            default=True,
            show_default=True,
            help="Also while a deployment locks the app, as Marathon does.",
        )(command)

    def editable(self, document: Mapping[str, Any]) -> Document:
        return definitions.editable(document)

    def consequence(self, before: Document, after: Document) -> str:
        return definitions.consequence(before, after)

    def body(self, before: Document, after: Document) -> tuple[Document, bool]:
        return definitions.to_send(before, after)

    def warn(self, marathon: Marathon, document: Document) -> None:
        caution(marathon, document, say)


APP = AppKind()
list_apps, show, update, remove = list_command(APP), show_command(APP), update_command(APP), remove_command(APP)
name_argument = APP.argument


@click.command()
@click.argument("file", required=False)
@wait_options()
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@click.option("--dry-run", is_flag=True, help="Check, say what would be created, and create nothing.")
@click.option(
    "--plan", "only_plan", is_flag=True, help="Say where it would start, or what it would wait for; status 5."
)
@force_option
@output_options()
@target_options
@pass_console
def add(
    console: Console,
    file: str | None,
    waiting: Waiting,
    no_validate: bool,
    dry_run: bool,
    only_plan: bool,
    force: bool,
) -> int:
    """Add the app that FILE defines.

    FILE is JSON or YAML; a URL, or - for standard input. It is checked first; unknown keys, which a server would
    overlook, are refused. What is likely to surprise (it fits no agent, it ends at once) is warned of.
    """
    from marathon_cli.changes import rules

    source, document = read_definition(APP, file)
    try:
        marathon = console.marathon()
        known = rules.rules_of(marathon.info())
    except MesosGpuError:
        # What is wrong with the file comes first: it is nearer, and fixed without a server.
        if not no_validate:
            APP.check(source, document, rules.OFFLINE)
        raise
    canonical = document if no_validate else _checked(source, document, known)
    if not no_validate:
        caution(marathon, canonical, say)
    if dry_run:
        _preview(console, canonical, {str(app.get("id")) for app in marathon.apps()})
        return 0
    if only_plan:
        from marathon_cli.clients.marathon import plan
        from marathon_cli.show.plan import show_plan

        with rules.explained(source, document, known, marathon.url):
            return show_plan(console, plan(marathon, [{"kind": "app", "document": document}], force=force))
    try:
        with rules.explained(source, document, known, marathon.url):
            change = Apps(marathon).add(document, force=force)
    except Locked:
        raise
    except Conflict as error:
        raise _explained(error, document) from None
    app_id = str(change.document.get("id"))
    finish(console, marathon, change, APP.targets(app_id), f"adds {app_id}", waiting, value={"id": app_id})
    return 0


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@output_options()
@target_options
@pass_console
def validate(console: Console, files: tuple[str, ...]) -> int:
    """Check files that define apps, and change nothing.

    A Marathon that can be reached says what it accepts; without one only what holds for all is checked. The exit
    status is 1 when a file has problems.
    """
    from marathon_cli.changes import rules
    from marathon_cli.document import check

    try:
        known = rules.rules_if_any(console.marathon())
    except MesosGpuError:
        known = rules.OFFLINE
    found: list[dict[str, Any]] = []
    for file in files:
        try:
            source = check.read_source(file)
            app = _checked(source, check.parse(source), known)
            found.append({"file": file, "id": app["id"], "valid": True})
        except BadInput as error:
            click.echo(str(error), err=True)
            found.append({"file": file, "id": None, "valid": False})

    def table() -> Table:
        rows = [[item["file"], item["id"] or "---", "valid" if item["valid"] else "has problems"] for item in found]
        return Table(columns("FILE", "APP", "VERDICT"), rows)

    console.show(found, table=table, names=[item["file"] for item in found if item["valid"]])
    return 0 if all(item["valid"] for item in found) else 1


@click.command()
@name_argument
@click.option("--max-count", type=Whole(min=1), metavar="N", help="Only the newest N.")
@output_options()
@target_options
@pass_console
def versions(console: Console, name: str, max_count: int | None) -> None:
    """List the versions of APP, newest first."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        found = Apps(marathon).versions(wanted)[:max_count]
    rows = [[text, -back if back else "now"] for back, text in enumerate(found)]
    console.show(found, table=lambda: Table(columns("VERSION", "BACK", numbers=("BACK",)), rows), names=found)


@click.command()
@name_argument
@click.argument("instances", type=Whole(min=1), default=1)
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def start(console: Console, name: str, instances: int, waiting: Waiting, force: bool) -> None:
    """Start APP, which has no instances, with INSTANCES of them."""
    _scale(console, name, instances, waiting, force=force, only_from_zero=True)


@click.command()
@name_argument
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def stop(console: Console, name: str, waiting: Waiting, force: bool) -> None:
    """Stop APP: no instances, and all its tasks end."""
    _scale(console, name, 0, waiting, force=force)


@click.command()
@name_argument
@click.argument("instances", type=Whole(min=0))
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def scale(console: Console, name: str, instances: int, waiting: Waiting, force: bool) -> None:
    """Run INSTANCES copies of APP."""
    _scale(console, name, instances, waiting, force=force)


def _scale(
    console: Console, name: str, instances: int, waiting: Waiting, *, force: bool, only_from_zero: bool = False
) -> None:
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        now = int(marathon.app(wanted).get("instances") or 0)
    if only_from_zero and now > 0:
        advice = f"`mesos-gpu app scale {wanted} {instances}` changes that"
        raise Conflict(f"{wanted} is started: it has {now} instances; {advice}")
    if now == instances and not force:
        raise Conflict(f"{wanted} has {now} instances already" if instances else f"{wanted} is stopped already")
    change = Apps(marathon).put(wanted, {"instances": instances}, force=force, partial=True)
    value = {"id": wanted, "instances": instances}
    sentence = f"{wanted} goes from {now} to {instances} instances"
    finish(console, marathon, change, APP.targets(wanted), sentence, waiting, value=value)


@click.command()
@name_argument
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def restart(console: Console, name: str, waiting: Waiting, force: bool) -> None:
    """Replace all tasks of APP, as its upgradeStrategy says."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        if not marathon.app(wanted).get("instances"):
            raise Conflict(f"{wanted} is stopped; `mesos-gpu app start {wanted}` starts it")
    change = Apps(marathon).restart(wanted, force=force)
    finish(console, marathon, change, APP.targets(wanted), f"restarts {wanted}", waiting, value={"id": wanted})


@click.command()
@name_argument
@click.option("--host", metavar="HOST", help="Only the tasks on this agent.")
@click.option(
    "--scale", "and_scale", is_flag=True, help="Lower the instances by as many, so that none is started again."
)
@click.option("--wipe", is_flag=True, help="Drop their persistent volumes, too.")
@force_option
@output_options()
@target_options
@pass_console
def kill(console: Console, name: str, host: str | None, and_scale: bool, wipe: bool, force: bool) -> None:
    """End the tasks of APP; others take their place."""
    if and_scale and wipe:
        raise BadInput("--scale and --wipe exclude each other")
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        there = [task for task in marathon.tasks(wanted) if host is None or task.get("host") == host]
    where = f" on {host}" if host else ""
    if not there:
        raise Conflict(f"{wanted} has no tasks{where}; nothing was ended")
    if and_scale:
        change = Apps(marathon).kill_and_scale(wanted, host=host, force=force)
        sentence = f"ends {len(there)} tasks of {wanted}{where} and lowers its instances by as many"
        finish(console, marathon, change, APP.targets(wanted), sentence, value={"id": wanted})
        return
    killed = Apps(marathon).kill(wanted, host=host, wipe=wipe)
    console.tell(f"Killed tasks: {', '.join(killed)}", {"tasks": killed}, names=killed)


def caution(marathon: Marathon, app: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Say what is likely to surprise about an app that is about to be sent. Raises nothing: it is advice."""
    from marathon_cli.clients.mesos import Cluster
    from mesos_gpu.marathon.why.request import rules_shown
    from mesos_gpu.marathon.why.warnings import may_lack_driver, warnings

    agents: list[Machine] | None = None
    brings_driver: bool | None = None
    config: Mapping[str, Any] = {}
    try:
        config = marathon.config()
        cluster = Cluster(marathon.mesos())
    except MesosGpuError:
        cluster = None
    if cluster is not None:
        try:
            agents = cluster.machines()
            if image := may_lack_driver(app):
                brings_driver = _brings_driver(cluster, agents, image)
        except MesosGpuError:
            pass
        finally:
            cluster.close()
    for sentence in warnings(app, agents, rules_shown(config, {}), brings_driver=brings_driver):
        say(f"warning: {sentence}")


def _brings_driver(cluster: Cluster, agents: Sequence[Machine], image: str) -> bool | None:
    """Return whether an image asks for the driver, as an agent that keeps it says; None where none does."""
    from mesos_gpu.images.reference import ImageReference

    def short(text: str) -> tuple[object, ...]:
        # By whatever registry an agent has it: its --docker_registry may be another than the name says.
        found = ImageReference.parse(text)
        return found.repository.removeprefix("library/"), found.tag, found.digest

    try:
        wanted = short(image)
        for kept in cluster.images([agent for agent in agents if agent.total.gpus][:ASKED]).values():
            for one in kept:
                if "nvidia_driver" in one and short(str(one.get("reference"))) == wanted:
                    return bool(one["nvidia_driver"])
    except MesosGpuError:
        pass  # a name that is none is the server's to refuse
    return None


def _checked(source: Source, document: Any, known: AppRules) -> Document:
    """Return the canonical app. Raises BadInput that lists every problem found."""
    APP.check(source, document, known)
    return APP.with_defaults(document, known)


def _preview(console: Console, app: dict[str, Any], taken: set[str]) -> None:
    app_id = "/" + str(app.get("id")).strip("/")
    if app_id in taken:
        raise _explained(Conflict(f"app {app_id} already exists"), {"id": app_id})
    count, gpus = app.get("instances", 1), app.get("gpus", 0)
    each = f"{gpus:g} GPUs, {app.get('cpus', 1):g} CPUs, {app.get('mem', 128):g} MiB"
    console.tell(f"Would add {app_id}: {count} x ({each})", app, names=[app_id])


def _explained(error: Conflict, document: Any) -> Conflict:
    name = document.get("id") if isinstance(document, dict) else None
    already = str(error) if "already exists" in str(error) else f"app {name} already exists: {error}"
    see, anew = f"mesos-gpu app show {name}", f"mesos-gpu app update {name} --file FILE"
    return Conflict(f"{already}\n  `{see}` shows it; `{anew}` changes it")


class _Beside(NamedTuple):
    """What is known of apps beside what they say themselves, each by the app's id."""

    actions: Mapping[str, str]
    waiting: Mapping[str, str]
    devices: Mapping[str, str]
    suspended: Mapping[str, int]
    """How many of its tasks have their GPUs put away."""


_GIVES = ("gpus", "gpuShare", "preemptible")


def _beside(marathon: Marathon, apps: Sequence[Mapping[str, Any]]) -> _Beside:
    from mesos_gpu.marathon.why.suspended import is_suspended

    # What has GPUs may be suspended: its tasks tell, and hold devices.
    asks = any(any(map(item.get, _GIVES)) and item.get("tasksRunning") for item in apps)
    tasks = marathon.tasks() if asks else []
    suspended = Counter(str(task.get("appId")) for task in tasks if is_suspended(task))
    return _Beside(_actions(marathon), _waiting(marathon), _devices(marathon, apps, tasks), suspended)


def _actions(marathon: Marathon) -> dict[str, str]:
    """Return what deployments are doing to each app."""
    found: dict[str, set[str]] = {}
    try:
        deployments = marathon.deployments()
    except (NotFound, Unavailable):
        deployments = []
    for deployment in deployments:
        for action in deployment.get("currentActions", []):
            word = str(action.get("action", "")).removesuffix("Application").lower()
            found.setdefault(str(action.get("app")), set()).add(word)
    return {name: ",".join(sorted(words)) for name, words in found.items()}


def _devices(
    marathon: Marathon, apps: Sequence[Mapping[str, Any]], tasks: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return which GPUs the tasks of each app hold, `0,1@host`; nothing of agents of Mesos' own, which do not tell."""
    wanting = {str(item.get("id")) for item in apps if item.get("gpus") and item.get("tasksRunning")}
    if not wanting:
        return {}
    from marathon_cli.show.gpus import GpuLine, by_agent, held_gpus

    theirs = [task for task in tasks if str(task.get("appId")) in wanting]
    held: dict[str, list[GpuLine]] = {}
    for lines in held_gpus(marathon, theirs).values():
        for line in lines:
            held.setdefault(str(line.app), []).append(line)
    return {app_id: by_agent(lines) for app_id, lines in held.items()}


def _waiting(marathon: Marathon) -> dict[str, str]:
    """Return how many instances of each app wait for an offer, and how long they are held back."""
    try:
        queue: Iterable[Mapping[str, Any]] = marathon.queue()
    except (NotFound, Unavailable):
        return {}
    found = {}
    for item in queue:
        left = (item.get("delay") or {}).get("timeLeftSeconds") or 0
        order = item.get("order") or {}
        gang = (
            f", {order.get('membersThatFit')} of {order['members']} fit" if int(order.get("members") or 1) > 1 else ""
        )
        found[str((item.get("app") or {}).get("id"))] = f"{item.get('count')}{f' in {left:g} s' if left else gang}"
    return found


def _status(item: Mapping[str, Any], beside: _Beside) -> str:
    """Return how an app is, in as few words as tell what to look at: what fails comes before all else."""
    from mesos_gpu.marathon.why.failure import failing, in_short

    running, wanted = int(item.get("tasksRunning") or 0), int(item.get("instances") or 0)
    failure = failing(item, running=running, wanted=wanted, now=datetime.now(timezone.utc))
    if failure is not None:
        return in_short(failure)
    if wanted == 0 and running == 0:
        return "stopped"
    if item.get("tasksUnhealthy"):
        return "unhealthy"
    if away := beside.suspended.get(str(item.get("id"))):
        return "suspended" if away >= running else f"{away} of {running} suspended"
    if running >= wanted:
        return "running"
    return "waiting" if str(item.get("id")) in beside.waiting else "starting"


def _row(item: Mapping[str, Any], beside: _Beside) -> list[object]:
    name = str(item.get("id"))
    running, healthy, sick = item.get("tasksRunning", 0), item.get("tasksHealthy", 0), item.get("tasksUnhealthy", 0)
    cmd = item.get("cmd") or (f"[{', '.join(item['args'])}]" if item.get("args") else "---")
    return [
        name,
        item.get("gpus", 0),
        beside.devices.get(name, "---"),
        item.get("cpus"),
        item.get("mem"),
        f"{running}/{item.get('instances', 0)}",
        _status(item, beside),
        f"{healthy}/{running}" if healthy or sick else "---",
        beside.actions.get(name, "waiting" if item.get("deployments") else "---"),
        beside.waiting.get(name, "---"),
        (item.get("container") or {}).get("type", "MESOS"),
        item.get("role", "---"),
        " ".join(str(cmd).split()),
    ]
