"""Why an app is not running, agent by agent, and what would make it run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.why.ending_commands import ends_at_once
from mesos_gpu.marathon.why.facts import Situation, holders_of
from mesos_gpu.marathon.why.failure import Failure, container_of, failing, image_of
from mesos_gpu.marathon.why.links import linked
from mesos_gpu.marathon.why.order import gang_without_room, waits_in_order
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.marathon.why.suggestions import behaviour_remedy, impossible, releases, scattered
from mesos_gpu.marathon.why.suspended import giving_way_words, suspended_words
from mesos_gpu.marathon.why.verdict import Lack, Verdict, count_text, memory_levels, room
from mesos_gpu.mesos.clients.agents import SCALARS
from mesos_gpu.mesos.resource import milli
from mesos_gpu.mesos.shares.cgpu import ShareAsk

if TYPE_CHECKING:
    from mesos_gpu.marathon.why.change import Change
    from mesos_gpu.marathon.why.smallest import Surroundings

REASONS: Mapping[str, str] = {
    Reason.UNFULFILLED_ROLE: "what it offers belongs to other roles",
    Reason.UNFULFILLED_CONSTRAINT: "it does not fulfil the constraints",
    Reason.NO_CORRESPONDING_RESERVATION: "it does not offer the app's reservation",
    Reason.AGENT_MAINTENANCE: "it is under maintenance",
    Reason.INSUFFICIENT_CPUS: "not enough CPUs in its offer",
    Reason.INSUFFICIENT_MEMORY: "not enough memory in its offer",
    Reason.INSUFFICIENT_DISK: "not enough disk in its offer",
    Reason.INSUFFICIENT_GPUS: "not enough GPUs in its offer",
    Reason.INSUFFICIENT_PORTS: "the ports wanted are not in its offer",
    Reason.DECLINED_SCARCE_RESOURCES: "it has GPUs, and is kept for apps that use some",
}
"""Marathon's reasons (mesos/NoOfferMatchReason.scala) in words."""


_SHOWN = ("gpus", "cpus", "mem", "disk")


class Answer(Struct, frozen=True):
    """Why. `state` is one word: running, starting, stopped, delayed, blocked, impossible or waiting."""

    app: str
    state: str
    headline: str
    verdicts: tuple[Verdict, ...]
    said: Mapping[str, Sequence[str]]
    """What Marathon said of the last offer of each agent, by agent id."""
    remedies: tuple[str, ...]
    failure: Failure | None = None
    """What keeps it from running, where its tasks fail."""
    change: Change | None = None
    """The smallest change after which one more instance starts, where resources or rules are in the way."""

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "app": self.app,
            "state": self.state,
            "headline": self.headline,
            "agents": [
                {
                    "agent": verdict.agent,
                    "agentId": verdict.agent_id,
                    "now": verdict.now,
                    "ever": verdict.ever,
                    "slots": verdict.slots,
                    "lacks": [_shown(lack) for lack in verdict.lacks],
                    "lastOffer": list(self.said.get(verdict.agent_id, ())),
                }
                for verdict in self.verdicts
            ],
            "change": None if self.change is None else self.change.document(),
            "remedies": list(self.remedies),
            "failure": None
            if self.failure is None
            else {"message": self.failure.message, "taskId": self.failure.task_id, "tries": self.failure.tries},
        }


def _shown(lack: Lack) -> dict[str, Any]:
    """Return a lack for programs; amounts of resources in the units that apps are written in."""
    shown: dict[str, Any] = {"what": lack.kind, "forEver": lack.for_ever, "text": lack.text}
    if (found := lack.finding) is not None:
        scale = 1000 if found.subject in SCALARS else 1
        for key, measure in (("requested", found.requested), ("free", found.found), ("total", found.empty)):
            shown[key] = measure / scale if isinstance(measure, int) and scale != 1 else measure
    return shown


def answer(it: Situation) -> Answer:
    """Return why an app is not running, and what would make it run."""
    failure = failing(it.app, running=it.running, wanted=it.request.spec.instances, now=it.now)
    state, headline, remedies = _judged(it, failure)
    if state in ("waiting", "blocked"):
        headline += giving_way_words(it.app, it.queued)
    order = {"now": 0, "ever": 1, "never": 2}
    verdicts = sorted(it.verdicts, key=lambda v: order["now" if v.now else "ever" if v.ever else "never"])
    said = said_by_marathon(it.queued)
    kept = _kept(it)
    if it.request.is_job and it.queued is not None:
        words = "a run that waits asks for what the job said when it was started; after a change of the job"
        remedies = [
            *remedies,
            f"{words}: `mesos-gpu job kill {it.request.id} --all`, `mesos-gpu job run {it.request.id}`",
        ]
    if kept and state in ("waiting", "blocked", "impossible", "running"):
        remedies = [*remedies, kept]
    change = None if failure is not None or state not in ("waiting", "impossible", "blocked") else _smallest(it)
    return Answer(it.request.id, state, headline, tuple(verdicts), said, tuple(remedies), failure, change)


def _kept(it: Situation) -> str:
    """Return what keeps its parts of GPUs to their memory where it runs, or would where it could; "" without parts."""
    mine = {str(task.get("slaveId")) for task in it.app.get("tasks") or []} if it.running else set()
    agents = [agent for agent in it.agents if not mine or agent.id in mine]
    levels = sorted({level for agent in agents for level in memory_levels(it.request, agent)})
    if not levels:
        return ""
    would = "is" if mine else "would be"
    return f"the memory of its part of a GPU {would} kept by: {', '.join(levels)} (docs/do/sharing.md, Memory)"


def _smallest(it: Situation) -> Change | None:
    """Return the smallest change that would start one more instance; None when there is room, or it is not known."""
    if it.queued is not None and "order" in it.queued:
        return it.ordered_change  # what an app alone would need may go to others
    if it.queued is None or it.blockers or not it.agents_known or not it.agents or it.request.is_job:
        return None
    from mesos_gpu.marathon.why.smallest import smallest  # most answers need none of its imports

    found = smallest(it.request, surroundings(it))
    return found if found is not None and found.steps else None


def surroundings(it: Situation) -> Surroundings:
    """Return what an app has around it, as the smallest change is looked for in."""
    from mesos_gpu.marathon.why.smallest import Surroundings

    role = str(it.request.spec.document["role"])
    top = role.partition("/")[0]
    quota = next((entry.get("quota") or {} for entry in it.roles if entry.get("name") == top), {})
    limits = {str(name): round(float(limit) * 1000) for name, limit in (quota.get("limit") or {}).items()}
    consumed = {name: round(float((quota.get("consumed") or {}).get(name) or 0) * 1000) for name in limits}
    return Surroundings(it.agents, it.placed, it.held, limits, consumed, it.rules)


def said_by_marathon(queued: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Return the reasons of the last offers that did not serve, by agent id."""
    found: dict[str, list[str]] = {}
    for unused in (queued or {}).get("lastUnusedOffers") or []:
        agent_id = str((unused.get("offer") or {}).get("agentId"))
        found[agent_id] = [str(reason) for reason in unused.get("reason") or []]
    return found


def _judged(it: Situation, failure: Failure | None) -> tuple[str, str, list[str]]:
    request, name = it.request, it.request.id
    if it.queued is None:
        return _not_queued(it, failure)
    waiting = int(it.queued.get("count") or 1)
    one = "run" if request.is_job else "instance"
    plural = f"{waiting} {one}{'s' if waiting != 1 else ''} of {name} wait{'' if waiting != 1 else 's'}"
    left_s = float((it.queued.get("delay") or {}).get("timeLeftSeconds") or 0)
    if left_s > 0:
        if failure is not None:
            return "delayed", f"{name}: {failure.sentence} It starts again in {left_s:g} s.", _of_failure(it, failure)
        last = it.app.get("lastTaskFailure") or {}
        ended = f" The last one: {last.get('message') or last.get('state')}." if last else ""
        return (
            "delayed",
            f"{name} starts again in {left_s:g} s: its tasks end too soon, so each try waits longer.{ended}",
            [f"`mesos-gpu task log {name}` shows what the last task wrote", *_ends(it)],
        )
    if it.blockers:
        return _blocked(it)
    if not it.agents_known:
        counted = Counter(reason for reasons in said_by_marathon(it.queued).values() for reason in reasons[:1])
        words = ", ".join(f"{REASONS.get(reason, reason)} ({count})" for reason, count in counted.most_common())
        return "waiting", f"{plural}: {words or 'no offer of resources has come'}.", []
    if not it.agents:
        return "impossible", f"{plural}, and no agent is registered.", ["start a mesos-gpu-agent"]
    limit = _over_quota(it)
    if limit:
        return "blocked", f"{plural}: {limit}", [f"raise the quota of the role {it.app.get('role')}"]
    able = [verdict for verdict in it.verdicts if verdict.ever]
    if not able:
        return "impossible", f"No agent could ever run {name}: {_wanted(request)}.", impossible(it)
    slots, instances = room(request, it.agents, it.verdicts), request.spec.instances
    if slots < request.spec.gang_size:
        return "impossible", *gang_without_room(request, slots)
    ordered = waits_in_order(request, it.queued)
    if ordered is not None:
        return "waiting", ordered[0], [*ordered[1], *releases(it, able)]
    ready = [verdict for verdict in able if verdict.now]
    if ready:
        return _ready(it, plural, ready, failure)
    if it.upgrading and _waits_for_itself(it, able):
        return _blocked_by_itself(it, plural)
    headline = f"{plural} for {_wanted(request)}: {_some(len(able))} could run it, and none can now."
    full = [f"the agents have room for {slots} of its {instances} instances, were they empty"]
    return "waiting", headline, [*(full if slots < instances else []), *scattered(it, able), *releases(it, able)]


def _not_queued(it: Situation, failure: Failure | None) -> tuple[str, str, list[str]]:
    name, spec = it.request.id, it.request.spec
    if spec.instances == 0:
        start = f"mesos-gpu pod update {name} scaling.instances=1" if spec.is_pod else f"mesos-gpu app start {name}"
        return "stopped", f"{name} is stopped: it is asked to run 0 instances.", [f"`{start}` runs it"]
    if it.running >= spec.instances:
        sick = int(it.app.get("tasksUnhealthy") or 0)
        if sick:
            return (
                "running",
                f"{name} runs, {it.running} of {spec.instances}, but {sick} fail their health checks.",
                [f"`mesos-gpu task log {name}` shows what its tasks write"],
            )
        if failure is not None:
            headline = f"{name}: {failure.sentence} At the moment it runs again: {it.running} of {spec.instances}."
            return "running", headline, _of_failure(it, failure)
        return (
            "running",
            f"{name} runs: {it.running} of {spec.instances}.{suspended_words(it.app)}{linked(it.app)}",
            [],
        )
    if failure is not None:
        headline = f"{name}: {failure.sentence} The next try is on its way; {it.running} of {spec.instances} run."
        return "starting", headline, _of_failure(it, failure)
    return (
        "starting",
        f"{name} does not wait for resources: {it.running} of {spec.instances} run, and the rest is on its way.",
        [f"`mesos-gpu task list {name}` shows how far its tasks are"],
    )


def _of_failure(it: Situation, failure: Failure) -> list[str]:
    """Return what helps against failures."""
    if failure.of_image:
        image, kind, key = image_of(it.app, failure.task_id), "app", "container.docker.image"
        if "containers" in it.app:
            kind, key = "pod", f"containers[{container_of(it.app, failure.task_id)}].image.id"
        return [
            f"`mesos-gpu image pull {image}` tries it now, and says what is wrong: its name, the registry, or a login",
            f"`mesos-gpu {kind} update {it.request.id} {key}=NAME` takes another",
        ]
    return [f"`mesos-gpu task log {it.request.id}` shows what the last task wrote, --stderr its errors", *_ends(it)]


def _ends(it: Situation) -> list[str]:
    if ends_at_once(it.app):
        return [
            "its command ends by itself, and Marathon starts it again each time: a job, or `mesos-gpu run`, runs once"
        ]
    return []


def _blocked(it: Situation) -> tuple[str, str, list[str]]:
    blocker = it.blockers[0]
    remedies = []
    strategy = (blocker.get("suggestion") or {}).get("upgradeStrategy")
    if strategy:
        where = "scheduling.upgrade" if it.request.spec.is_pod else "upgradeStrategy"
        words = " ".join(f"{where}.{key}={value:g}" for key, value in strategy.items())
        command = f"mesos-gpu {'pod' if it.request.spec.is_pod else 'app'} update {it.request.id} --force {words}"
        remedies.append(f"`{command}` ends old instances first")
    remedies.append("or free, or add, GPUs for one more instance")
    return "blocked", str(blocker.get("message", "its deployment waits for GPUs that its old instances hold")), remedies


def _waits_for_itself(it: Situation, able: Sequence[Verdict]) -> bool:
    """Return whether nothing but GPUs is missing where the app could run, and its own old instances hold enough."""
    if any(lack.kind != "gpus" for verdict in able for lack in verdict.lacks):
        return False
    return any(
        holder.name == it.request.id and holder.amounts.get("gpus", 0) >= verdict.lacks[0].missing
        for verdict in able
        for holder in holders_of(it.held.get(verdict.agent_id, ()))
    )


def _blocked_by_itself(it: Situation, plural: str) -> tuple[str, str, list[str]]:
    strategy = {"minimumHealthCapacity": it.request.one_missing, "maximumOverCapacity": 0}
    message = f"{plural} for GPUs that its old instances hold, and those are ended only once new ones run."
    return _blocked(replace(it, blockers=[{"message": message, "suggestion": {"upgradeStrategy": strategy}}]))


def _over_quota(it: Situation) -> str:
    role = str(it.request.spec.document["role"]).partition("/")[0]
    for entry in it.roles:
        quota = entry.get("quota") or {}
        if entry.get("name") != role:
            continue
        for name, limit in (quota.get("limit") or {}).items():
            most, consumed = milli(limit), milli((quota.get("consumed") or {}).get(name) or 0)
            wanted = it.request.spec.asked.get(name, 0)
            if wanted and consumed + wanted > most:
                has = f"{most / 1000:g} {name} and has {consumed / 1000:g}"
                return f"the role {role} may have {has}, and {wanted / 1000:g} are wanted."
    return ""


def _ready(it: Situation, plural: str, ready: Sequence[Verdict], failure: Failure | None) -> tuple[str, str, list[str]]:
    said = said_by_marathon(it.queued)
    where = ", ".join(verdict.agent for verdict in ready[:5])
    told = {reason for verdict in ready for reason in said.get(verdict.agent_id, ())}
    words = "; ".join(sorted(REASONS.get(reason, reason) for reason in told))
    headline = f"{plural}, and {where} ha{'s' if len(ready) == 1 else 've'} room."
    if words:
        headline += f" Marathon said of the last offer: {words}."
    elif not it.takes_gpu_offers and any(a.total.gpus for a in it.agents):
        return (
            "blocked",
            f"{headline} This Marathon is not offered agents with GPUs.",
            ["start it with --enable_features gpu_resources, or the master with --no-filter_gpu_resources"],
        )
    else:
        headline += " An offer of it has not come yet."
    if failure is not None:
        return "waiting", f"{it.request.id}: {failure.sentence} {headline}", _of_failure(it, failure)
    remedies = ["wait: offers come within a few seconds, and those refused come back after decline_offer_duration"]
    if Reason.DECLINED_SCARCE_RESOURCES in told:
        remedies = [behaviour_remedy()]
    return "waiting", headline, remedies


def _wanted(request: Request) -> str:
    order = sorted(request.spec.asked.items(), key=lambda item: _SHOWN.index(item[0]))
    parts = [count_text(amount, name) for name, amount in order]
    parts += [share_text(ask) for ask in request.spec.shares if ask is not None]
    parts += [" ".join(constraint) for constraint in request.constraints]
    return ", ".join(parts) or "nothing in particular"


def share_text(ask: ShareAsk) -> str:
    """Return a part of a GPU, or of several, in words."""
    amounts = " and ".join(f"{gib} GiB" for gib in ask.mem_gib)
    weight = f" with weight {ask.weight}" if ask.weight != 1 else ""
    return f"{amounts} of {'a GPU' if ask.cards == 1 else 'GPUs'}{weight}"


def _some(count: int) -> str:
    return "1 agent" if count == 1 else f"{count} agents"
