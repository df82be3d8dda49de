"""POST /v1/plan: what would happen if something were asked for; POST /v1/when: when what waits is expected to start.

`documents` are what would be sent, each with its `kind` (app, pod, job, group), one after the other. `agents` and
`roles` are a master's /slaves and /roles where whoever asks has them; else the master is asked here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web

from mesos_gpu.errors import BadInput, BadResources, Unavailable
from mesos_gpu.marathon.api.answers import flag, read_object
from mesos_gpu.marathon.api.mesos_door import MesosDoor, credentials_of
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.matching.machines import Machine, headroom_of, read_machine
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.simulation.dry_run import DryRun, Wait, dry_run
from mesos_gpu.marathon.simulation.replica import Start
from mesos_gpu.marathon.simulation.start_estimate import QUANTILES, estimate_start
from mesos_gpu.marathon.state.events import Event, PutApps, PutGroup, PutJob, PutPod, StartRun
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.why.answer import REASONS
from mesos_gpu.mesos.ids import Role
from mesos_gpu.process.http import json_response

KINDS = ("app", "pod", "job", "group")


class PlanApi:
    """The handler."""

    def __init__(self, scheduler: Scheduler, door: MesosDoor) -> None:
        self._scheduler, self._door = scheduler, door

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.post("/v1/plan", self.plan), web.post("/v1/when", self.when)]

    async def plan(self, request: web.Request) -> web.Response:
        """Answer with what would happen if documents were sent: starts, ends, what waits; nothing is done."""
        asked = await read_object(request)
        documents = asked.get("documents")
        if not isinstance(documents, list) or not documents or not all(map(_is_kind, documents)):
            raise BadInput(f'documents: a list of {{"kind": ..., "document": {{...}}}}; kinds are {", ".join(KINDS)}')
        state = self._connected()
        machines, headroom = await self._around(asked, credentials_of(request))
        events = [
            _event(one["kind"], one["document"], state, self._scheduler.new_id, flag(request, "force"))
            for one in documents
        ]
        # Seconds on large clusters: on a thread, as a state is a value.
        found = await asyncio.to_thread(
            dry_run,
            state,
            [event for each in events for event in each],
            machines,
            self._scheduler.settings,
            self._scheduler.moment(),
            headroom,
        )
        return json_response(shown(found))

    async def when(self, request: web.Request) -> web.Response:
        """Answer with when what waits of an app, a pod or a job is expected to start: early, usual and late."""
        asked = await read_object(request)
        name = asked.get("id")
        if not isinstance(name, str) or not name:
            raise BadInput("id: the app, pod or job that is asked about")
        state = self._connected()
        machines, headroom = await self._around(asked, credentials_of(request))
        app_id = "/" + name.strip("/")
        known = app_id if state.app(app_id) is not None else name.strip("/")
        moment = self._scheduler.moment()
        found = await asyncio.to_thread(
            estimate_start, state, known, machines, self._scheduler.settings, moment, headroom
        )
        return json_response(
            {
                "id": found.app,
                "waiting": found.waiting,
                "firstSeconds": list(found.first_s) or None,
                "lastSeconds": list(found.last_s) or None,
                "quantiles": list(QUANTILES),
                "starts": starts_shown(found.starts),
                "tasks": {"seen": found.seen, "asked": found.asked, "unknown": found.unknown},
            }
        )

    def _connected(self) -> State:
        state = self._scheduler.state
        if not state.subscribed:
            raise Unavailable("this Marathon has no master at the moment: nothing would start before it has one")
        return state

    async def _around(
        self, asked: Mapping[str, Any], credentials: str | None
    ) -> tuple[list[Machine], dict[Role, dict[str, int]]]:
        """Return the agents, and what quotas leave to roles."""
        agents, roles = await self.around(asked, credentials)
        try:
            machines = [read_machine(agent) for agent in agents]
            return machines, headroom_of(roles)
        except (BadResources, ValueError, TypeError, LookupError, AttributeError) as error:
            raise BadInput(
                f"agents and roles are a master's /slaves and /roles, and these are not: {error!r}"
            ) from None

    async def around(self, asked: Mapping[str, Any], credentials: str | None) -> tuple[list[Any], list[Any]]:
        """Return a master's agents and roles: those that are told, else those of the master. Raises Unavailable."""
        agents, roles = asked.get("agents"), asked.get("roles")
        if isinstance(agents, list):
            return agents, roles if isinstance(roles, list) else []
        return await self._cluster(credentials)

    async def _cluster(self, credentials: str | None) -> tuple[list[Any], list[Any]]:
        slaves, roles = await asyncio.gather(
            self._door.ask(self._door.master("slaves"), credentials),
            self._door.ask(self._door.master("roles"), credentials),
        )
        return slaves.get("slaves") or [], roles.get("roles") or []


def shown(found: DryRun) -> dict[str, Any]:
    """Return a dry run for programs and people; tasks of an app that go the same way are one entry."""
    ends: Counter[tuple[str, str, str, float]] = Counter()
    for end in found.ends:
        ends[_name(end.app), end.host, end.why, end.gpus] += 1
    return {
        "now": found.now,
        "summary": summary(found),
        "apps": [_name(app) for app in found.apps],
        "steps": [[{"action": action, "app": app} for action, app in step] for step in found.steps],
        "starts": starts_shown(found.starts),
        "ends": [
            {"app": app, "host": host, "instances": number, "why": why, "gpus": number * gpus}
            for (app, host, why, gpus), number in ends.items()
        ],
        "suspends": [
            {"app": _name(app), "host": host, "instances": number, "gpus": number * gpus}
            for (app, host, gpus), number in Counter((one.app, one.host, one.gpus) for one in found.suspends).items()
        ],
        "waits": [{"app": _name(wait.app), "instances": wait.count, "for": waits_for(wait)} for wait in found.waits],
    }


def starts_shown(found: Iterable[Start]) -> list[dict[str, Any]]:
    """Return what starts for programs and people; tasks of an app that go the same way are one entry."""
    starts: Counter[tuple[str, str, str, float, tuple[tuple[str, float], ...]]] = Counter()
    cards: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for start in found:
        way = _name(start.app), start.host, start.agent_id, start.after_s, tuple(start.amounts.items())
        starts[way] += 1
        if start.cards:
            cards.setdefault(way, []).append({"indices": list(start.cards), "nvlink": start.linked})
    return [
        {
            "app": app,
            "host": host,
            "agentId": agent_id,
            "instances": number,
            "afterSeconds": after_s,
            "each": dict(amounts),
            **({"cards": cards[way]} if way in cards else {}),
        }
        for way, number in starts.items()
        for app, host, agent_id, after_s, amounts in [way]
    ]


def summary(found: DryRun) -> str:
    """Return in a sentence whether all would start, and at whose cost."""
    mine = set(found.apps)
    started = sum(start.app in mine for start in found.starts)
    waiting = sum(wait.count for wait in found.waits if wait.app in mine)
    late = [start.after_s for start in found.starts if start.app in mine and start.after_s]
    others = sorted({_name(end.app) for end in found.ends if end.app not in mine})
    parts = [f"{started} would start" if started else "nothing would start"]
    if waiting:
        parts.append(f"{waiting} would wait")
    elif late:
        parts.append(f"the last after {max(late):g} s")
    ended = sum(end.app in mine for end in found.ends)
    if ended:
        parts.append(f"{ended} would end")
    if others:
        parts.append(f"tasks of {', '.join(others)} would give way")
    if suspended := sorted({_name(one.app) for one in found.suspends}):
        parts.append(f"tasks of {', '.join(suspended)} would be suspended")
    if not found.done and not waiting:
        parts.append("the deployment would not end")
    return ", ".join(parts) + "."


def waits_for(wait: Wait) -> str:
    """Return what speaks against agents, the commonest first, with some names; where nothing does, what else it is."""
    by_reason: dict[str, list[str]] = {}
    for host, told in wait.reasons.items():
        for reason in told[:1]:
            by_reason.setdefault(REASONS[reason], []).append(host)
    ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), sorted(item[1])))
    if ordered:
        return "; ".join(f"{words} ({_some(sorted(hosts))})" for words, hosts in ordered)
    if not wait.offers:
        return "no agent has anything to offer"
    if wait.members > 1:
        return f"there is no room for all {wait.members} members at once, or others are before it"
    return "others are before it"


def _some(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


def _name(app_id: str) -> str:
    """Return what people call it: a run of a job by its job's name."""
    run = run_of(app_id)
    return app_id if run is None else run[0]


def _is_kind(one: Any) -> bool:
    return isinstance(one, dict) and one.get("kind") in KINDS and isinstance(one.get("document"), dict)


def _event(kind: str, document: dict[str, Any], state: State, new_id: Callable[[], str], force: bool) -> list[Event]:
    """Return the events that sending a document would be, with a run of a job where it is one."""
    name = str(document.get("id", ""))
    if kind == "app":
        return [PutApps([document], new_id(), force, create=None, partial=False)]
    if kind == "pod":
        return [PutPod(document, new_id(), force, create=state.app("/" + name.strip("/")) is None)]
    if kind == "group":
        return [PutGroup("/" + name.strip("/"), document, new_id(), force)]
    return [PutJob(document, create=name not in state.jobs), StartRun(name, f"R{new_id()}")]
