"""The roles of this framework: its own, and those of groups whose apps run in the group's role; offers of several.

Source: Marathon util/RoleSettings.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from mesos_gpu.marathon.decisions.using import Ready
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.state.actions import Decline, UpdateRoles
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.given_back import SETTLE_S, GivenBack, by_agent, in_all
from mesos_gpu.mesos.ids import AgentId, OfferId, Role


def ask_for_roles(draft: Draft) -> None:
    """Tell the master the roles that apps run in, when they are others than it knows; called after every event.

    A role stays while an instance has it, also when its app is gone.
    """
    if not draft.subscribed or (draft.roles and not draft.versions.changes):
        return
    own = draft.settings.role
    wanted = draft.roles | {own} | {Role(spec.document["role"]) for spec in draft.apps()}
    if wanted not in (draft.roles, {own}):
        draft.actions.append(UpdateRoles(sorted(wanted)))
    draft.roles = frozenset(wanted)


def in_one_role(
    draft: Draft,
    away: GivenBack,
    offers: list[Offer],
    parts: Sequence[list[Offer]],
    ready: Ready,
    grown: Collection[AgentId],
) -> tuple[list[Offer], list[Offer]]:
    """Return the offers of agents of which there is one in a role in which something waits, and those of idle roles.

    The others are given back: `parts` of an agent in one role, and what several roles have of one. `grown` as in
    launching.
    """
    offers, idle = _of_waiting_roles(draft, offers, ready)
    # The rest of a machine that is at hand is what a quota does not let the role have, but for what was freed just now.
    at_hand = {offer.agent_id for offer in offers}
    comes = [offer for offer in idle if offer.agent_id not in at_hand or offer.agent_id in grown]
    alone, shared = by_agent(offers, comes)
    for offer in comes:
        away.refused(offer, 0.0)
    several = [*parts, *shared]
    _give_back_as_one(draft, away, several, {offer.id for offer in comes})
    away.at_hand(alone)
    draft.awaited = draft.awaited.after({each[0].agent_id for each in several}, at_hand, draft.now_s)
    return alone, idle


def _give_back_as_one(draft: Draft, away: GivenBack, shared: list[list[Offer]], idle: set[OfferId]) -> None:
    """Give back the offers of agents of which several are out, to come again as one: each has one machine all the same.

    They come in the role in which one is held, else in the one in which the rest has come: what the first was offered
    may be all that its quota leaves it. Those of `idle` roles are declined already.
    """
    held = {document["id"]["value"] for document in draft.held}
    for several in shared:
        waiting = [offer for offer in several if offer.id not in idle]
        rest = min(waiting, key=lambda offer: offer.resources.milli("cpus"))
        meant = next((offer for offer in several if offer.id in held), rest)
        others = [offer.id for offer in several if offer.role != meant.role and offer.id not in idle]
        away.refused(replace(meant, resources=in_all(several)), 0.0)
        draft.actions.append(Decline([offer.id for offer in several if offer.role == meant.role], 0.0))
        if others:
            draft.actions.append(Decline(others, draft.settings.gang_offer_hold_s))


def _of_waiting_roles(draft: Draft, offers: list[Offer], ready: Ready) -> tuple[list[Offer], list[Offer]]:
    """Give back the offers of roles in which nothing waits, for long: their machines come in another role next.

    Return the other offers, and these: a gang needs several machines at one moment, and a master with several roles to
    serve offers it some of them in this role and some in that.
    """
    roles = {str(ready.specs[app_id].document["role"]) for app_id in ready}
    idle = [offer for offer in offers if offer.role not in roles]
    if len(draft.roles) < 2 or not idle:
        return offers, []
    draft.actions.append(Decline([offer.id for offer in idle], draft.settings.decline_offer_s))
    return [offer for offer in offers if offer.role in roles], idle


def keep_all(draft: Draft, offers: Sequence[Offer]) -> None:
    """Hold offers until the next look: when others come, or time passes."""
    until_s = draft.held_until_s if draft.gathering and draft.held_until_s is not None else draft.now_s
    draft.held, draft.gathering, draft.ordered = tuple(offer.document for offer in offers), bool(offers), True
    draft.held_until_s = max(until_s, draft.awaited.until_s + SETTLE_S) if offers else None
