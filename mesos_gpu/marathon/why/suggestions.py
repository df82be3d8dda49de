"""What would make an app run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mesos_gpu.marathon.matching.matching import BEHAVIOUR_LABEL, Finding
from mesos_gpu.marathon.why.facts import Situation, holders_of
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.marathon.why.steps import least_of
from mesos_gpu.marathon.why.verdict import Verdict, count_text, role_of, value_of


def impossible(it: Situation) -> list[str]:
    """Return what would have to change, the nearest agent first."""
    request, remedies = it.request, list[str]()
    only = {frozenset(lack.kind for lack in verdict.lacks if lack.for_ever) for verdict in it.verdicts}
    if any(kinds == {"scarce"} for kinds in only):
        remedies.append(behaviour_remedy())
    remedies += _gpu_remedies(it)
    remedies += _port_remedies(it)
    remedies += [_constraint_remedy(it, constraint) for constraint in _hindering(it)]
    nearest = min(it.verdicts, key=lambda v: (sum(lack.for_ever for lack in v.lacks), -_ratio(v, request), v.agent))
    lacks = "; ".join(lack.text for lack in nearest.lacks if lack.for_ever)
    return [*remedies, f"nearest is {nearest.agent}: {lacks}"]


def _lasting(it: Situation, subject: str) -> list[Finding]:
    """Return what every agent has of a subject where all of them have too little of it; else nothing."""
    findings = [lack.finding for verdict in it.verdicts for lack in verdict.lacks if lack.finding is not None]
    found = [finding for finding in findings if finding.subject == subject and finding.lasting]
    return found if len(found) == len(it.verdicts) else []


def _gpu_remedies(it: Situation) -> list[str]:
    amounts = [finding.empty for finding in _lasting(it, "gpus") if isinstance(finding.empty, int)]
    if not amounts:
        return []
    most = max(amounts)
    if most >= least_of("gpus", it.request.spec.asked["gpus"]):
        text = f"ask for at most {count_text(most, 'gpus')}, as many as one agent has"
        return [f"{text} (the GPUs of one instance are on one machine)"]
    if most:
        return []
    others = sorted({resource.role for agent in it.agents for resource in agent.total if resource.name == "gpus"})
    text = f'GPUs belong to the roles {", ".join(others)}: say "acceptedResourceRoles", or run in such a role'
    return [text if others else "add an agent with GPUs: none has any (`mesos-gpu doctor` on its machine)"]


def _port_remedies(it: Situation) -> list[str]:
    found = [finding for finding in _lasting(it, "ports") if isinstance(finding.requested, tuple)]
    if not found:
        return []
    ports = sorted({str(port) for finding in found for port in finding.requested or ()})  # type: ignore[union-attr]
    listed = ", ".join(ports)
    return [
        f"ask for other ports, or start an agent that offers {listed}: `--resources=ports:[{ports[0]}-{ports[-1]}]`"
    ]


def _hindering(it: Situation) -> list[tuple[str, ...]]:
    """Return the constraints that no agent fulfils, or, where each has one that does, all that keep some away."""
    by_words = {" ".join(constraint): constraint for constraint in it.request.constraints}
    kept_away: Counter[str] = Counter()
    for verdict in it.verdicts:
        for lack in verdict.lacks:
            if lack.kind == "constraint" and lack.for_ever:
                kept_away.update(words for words in by_words if words in lack.text)
    return [by_words[words] for words, count in kept_away.items() if count == len(it.verdicts)]


def _constraint_remedy(it: Situation, constraint: Sequence[str]) -> str:
    values = Counter(value_of(agent, constraint[0]) for agent in it.agents)
    there = ", ".join(f"{value} ({count})" for value, count in values.most_common(5) if value is not None)
    words = " ".join(constraint)
    if not there:
        return f"no agent has {constraint[0]}: give agents --attributes={constraint[0]}:..., or drop {words}"
    return f"change {words}: {constraint[0]} is {there}"


def _ratio(verdict: Verdict, request: Request) -> float:
    """Return how near an agent is by its scalars: 1 when it lacks none."""
    asked = request.spec.asked
    return min(
        (1 - lack.missing / asked[lack.kind] for lack in verdict.lacks if lack.kind in asked),
        default=1.0,
    )


def scattered(it: Situation, able: Sequence[Verdict]) -> list[str]:
    """Tell that there are GPUs enough, but not on one machine."""
    ids, gpus = {verdict.agent_id for verdict in able}, it.request.spec.gpus
    role = role_of(it.request.spec)
    free = [agent.offer_of(agent.free, role).gpus for agent in it.agents if agent.id in ids]
    if gpus > 1 and sum(free) >= gpus > max(free, default=0):
        return [
            f"{sum(free)} GPUs are free in all, but at most {max(free)} on one agent: "
            "an instance's GPUs are on one machine"
        ]
    return []


def releases(it: Situation, able: Sequence[Verdict]) -> list[str]:
    """Return what would make room: which app or framework, where, the smallest first; by drained agents, too."""
    found: list[tuple[int, str]] = []
    for verdict in able:
        if any(lack.kind == "agent" for lack in verdict.lacks):
            if all(lack.kind == "agent" for lack in verdict.lacks):
                found.append((0, f"{verdict.agent} would do: `mesos-gpu agent reactivate {verdict.agent}`"))
            continue
        missing = {lack.kind: lack.missing for lack in verdict.lacks if lack.missing}
        if len(missing) != len(verdict.lacks):
            continue
        for holder in holders_of(it.held.get(verdict.agent_id, ())):
            if holder.name != it.request.id and all(
                holder.amounts.get(name, 0) >= amount for name, amount in missing.items()
            ):
                what = _and(count_text(holder.amounts[name], name) for name in missing)
                who = (
                    f"`mesos-gpu app stop {holder.name}`" if holder.is_app else f"ending what {holder.name} runs there"
                )
                found.append(
                    (sum(holder.amounts[name] for name in missing), f"{who} would free {what} on {verdict.agent}")
                )
    texts = [text for _, text in sorted(found)][:5]
    if not texts:
        texts = [
            f"{verdict.agent} would do with {_and(count_text(lack.missing, lack.kind) for lack in verdict.lacks)} more"
            for verdict in sorted(able, key=lambda v: sum(lack.missing for lack in v.lacks))[:3]
            if verdict.lacks and all(lack.missing for lack in verdict.lacks)
        ]
    if (
        not texts
        and it.request.spec.largest_share is not None
        and any(lack.kind == "gpus" for v in able for lack in v.lacks)
    ):
        return [
            "`mesos-gpu gpu list` shows who has which part of the GPUs; theirs are free when they end or are suspended"
        ]
    return texts or [f"{v.agent}: {'; '.join(lack.text for lack in v.lacks)}" for v in able[:3] if v.lacks]


def behaviour_remedy() -> str:
    """Return how an app without GPUs gets onto agents that have some."""
    return (
        f'say "labels": {{"{BEHAVIOUR_LABEL}": "unrestricted"}} in the app, or start the Marathon with '
        "--gpu_scheduling_behavior=unrestricted"
    )


def _and(parts: Iterable[str]) -> str:
    return " and ".join(parts)
