"""What would make an app run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mesos_gpu.marathon.why.judge import Verdict, count_text, value_of
from mesos_gpu.marathon.why.situation import Situation
from mesos_gpu.marathon.why.wish import BEHAVIOUR_LABEL, Wish


def impossible(it: Situation) -> list[str]:
    """Return what would have to change, the nearest agent first."""
    wish, remedies = it.wish, []
    only = {frozenset(lack.kind for lack in verdict.lacks if lack.for_ever) for verdict in it.verdicts}
    if any(kinds == {"scarce"} for kinds in only):
        remedies.append(behaviour_remedy())
    most = max((agent.amount("total", "gpus", wish.roles) for agent in it.agents), default=0)
    if wish.gpus > most:
        if most:
            remedies.append(
                f"ask for at most {most:g} GPU{'s' if most != 1 else ''}, as many as one agent has "
                "(the GPUs of one instance are on one machine)"
            )
        else:
            others = sorted({role for agent in it.agents for role in agent.total if agent.total[role].get("gpus")})
            text = f'GPUs belong to the roles {", ".join(others)}: say "acceptedResourceRoles", or run in such a role'
            remedies.append(
                text if others else "add an agent with GPUs: none has any (`mesos-gpu doctor` on its machine)"
            )
    remedies += [_constraint_remedy(it, constraint) for constraint in _hindering(it)]
    nearest = min(it.verdicts, key=lambda v: (sum(lack.for_ever for lack in v.lacks), -_ratio(v, wish), v.agent))
    lacks = "; ".join(lack.text for lack in nearest.lacks if lack.for_ever)
    return [*remedies, f"nearest is {nearest.agent}: {lacks}"]


def _hindering(it: Situation) -> list[tuple[str, ...]]:
    """Return the constraints that no agent fulfils, or, where each has one that does, all that keep some away."""
    by_words = {" ".join(constraint): constraint for constraint in it.wish.constraints}
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


def _ratio(verdict: Verdict, wish: Wish) -> float:
    """Return how near an agent is by its scalars: 1 when it lacks none."""
    return min(
        (1 - lack.missing / wish.amounts[lack.kind] for lack in verdict.lacks if wish.amounts.get(lack.kind)),
        default=1.0,
    )


def scattered(it: Situation, able: Sequence[Verdict]) -> list[str]:
    """Tell that there are GPUs enough, but not on one machine."""
    ids = {verdict.agent_id for verdict in able}
    free = {agent.id: agent.amount("free", "gpus", it.wish.roles) for agent in it.agents if agent.id in ids}
    if it.wish.gpus > 1 and sum(free.values()) >= it.wish.gpus > max(free.values(), default=0):
        return [
            f"{sum(free.values()):g} GPUs are free in all, but at most {max(free.values()):g} on one agent: "
            "an instance's GPUs are on one machine"
        ]
    return []


def releases(it: Situation, able: Sequence[Verdict]) -> list[str]:
    """Return what would make room: which app or framework, where, the smallest first; by drained agents, too."""
    found: list[tuple[float, str]] = []
    for verdict in able:
        if any(lack.kind == "agent" for lack in verdict.lacks):
            if all(lack.kind == "agent" for lack in verdict.lacks):
                found.append((0.0, f"{verdict.agent} would do: `mesos-gpu agent reactivate {verdict.agent}`"))
            continue
        missing = {lack.kind: lack.missing for lack in verdict.lacks if lack.missing}
        if len(missing) != len(verdict.lacks):
            continue
        for holder in it.holders.get(verdict.agent_id, ()):
            if holder.name != it.wish.id and all(
                holder.amounts.get(name, 0.0) >= amount for name, amount in missing.items()
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
    if not texts and it.wish.shares and any(lack.kind == "gpus" for v in able for lack in v.lacks):
        return [
            "`mesos-gpu gpu list` shows who has which part of the GPUs; theirs are free when they end or are suspended"
        ]
    return texts or [f"{v.agent}: {'; '.join(lack.text for lack in v.lacks)}" for v in able[:3] if v.lacks]


def one_missing(instances: int) -> float:
    """Return the minimumHealthCapacity by which one instance may be missing; rounded down, so that it always may."""
    return (instances - 1) * 1000 // instances / 1000


def behaviour_remedy() -> str:
    """Return how an app without GPUs gets onto agents that have some."""
    return (
        f'say "labels": {{"{BEHAVIOUR_LABEL}": "unrestricted"}} in the app, or start the Marathon with '
        "--gpu_scheduling_behavior=unrestricted"
    )


def _and(parts: Iterable[str]) -> str:
    return " and ".join(parts)
