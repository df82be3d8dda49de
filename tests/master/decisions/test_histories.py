"""Any history of frameworks, agents and tasks: nothing is offered or used twice, nothing is lost."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from benchmarks.full_scan import decided
from mesos_gpu.errors import BadInput, Conflict
from mesos_gpu.master.events.operators import (
    DeactivateAgent,
    DrainAgent,
    Operate,
    ReactivateAgent,
    UpdateQuota,
    UpdateSchedule,
    UpdateWeights,
)
from mesos_gpu.master.events.schedulers import (
    Accept,
    AcceptInverseOffers,
    Decline,
    Revive,
    StreamClosed,
    Subscribe,
    Teardown,
)
from mesos_gpu.master.events.timers import Allocate, FailoverExpired
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views.agent_pages import AgentPages
from mesos_gpu.master.views.views import slaves_view
from mesos_gpu.mesos.conversions import with_kept
from mesos_gpu.mesos.resource import Document, Reservation, Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.tasks import is_terminal
from mesos_gpu.process.http import to_json
from tests.support.histories import examples
from tests.support.master.agents_history import ENDS, SIZES, AmongAgents, often, ports, seldom
from tests.support.master.build import check_books, framework_info, resources_of

BAD = [None, None, None, "gpus:0.5", "cpus:9"]
names = st.sampled_from(["plain", "gpu", "ml"])


class Histories(AmongAgents):
    """Schedulers that come and go, and operators, of a master among agents."""

    def framework(self, name: str) -> Framework | None:
        """The connected framework of that name, subscribed now if there is none."""
        if not any(f.name == name and f.connected for f in self.state.frameworks.values()):
            self.subscribe(name, back=True, checkpoint=True)
        return next((f for f in self.state.frameworks.values() if f.name == name and f.connected), None)

    @rule(name=names, back=st.booleans(), checkpoint=st.booleans())
    def subscribe(self, name: str, back: bool, checkpoint: bool) -> None:
        self.made += 1
        stream_id = f"s{self.made}"
        info = framework_info(name, capabilities="" if name == "plain" else "GPU_RESOURCES", checkpoint=checkpoint)
        info |= {"role": "ml"} if name == "ml" else {}
        known = [f for f in self.state.frameworks.values() if f.name == name]
        if back and known:
            info["id"] = {"value": known[0].id}
        self.does(Subscribe(stream_id, {"framework_info": info}))

    @rule(name=names, expire=st.booleans(), really=seldom)
    def hang_up(self, name: str, expire: bool, really: bool) -> None:
        framework = self.framework(name)
        if framework is None or framework.stream_id is None or not really:
            return
        self.does(StreamClosed(framework.stream_id))
        if expire:
            self.does(FailoverExpired(framework.id, framework.epoch))

    @rule(name=names, really=seldom)
    def remove_framework(self, name: str, really: bool) -> None:
        framework = self.framework(name)
        if framework is not None and really:
            self.does(Teardown(framework.id, {}))

    @rule()
    def allocate(self) -> None:
        self.state.sync_market()
        expected = {(a.agent_id, *a.client.key): a.resources for a in decided(self.state)}
        before = {offer_id for agent in self.state.agents.values() for offer_id in agent.offers}
        self.does(Allocate())
        made = [o for agent in self.state.agents.values() for o in agent.offers.values() if o.id not in before]
        assert {(o.agent_id, o.role, o.framework_id): o.resources.unallocated() for o in made} == expected

    @rule(limit=st.integers(0, 3), guarantee=st.integers(0, 3), role=st.sampled_from(["*", "ml"]))
    def change_quota(self, limit: int, guarantee: int, role: str) -> None:
        config = {
            "role": role,
            "guarantees": {"gpus": {"value": min(limit, guarantee)}},
            "limits": {"gpus": {"value": limit}} if limit else {},
        }
        self.does(UpdateQuota({"force": True, "quota_configs": [config]}))

    @rule(role=st.sampled_from(["*", "ml"]), weight=st.sampled_from([0.5, 1.0, 4.0]))
    def change_weight(self, role: str, weight: float) -> None:
        self.does(UpdateWeights([{"role": role, "weight": weight}]))

    @rule(scheduled=st.booleans())
    def schedule_maintenance(self, scheduled: bool) -> None:
        machine = {"hostname": "127.0.0.1", "ip": "127.0.0.1"}
        window = {"machine_ids": [machine], "unavailability": {"start": {"nanoseconds": 1}}}
        self.does(UpdateSchedule({"windows": [window]} if scheduled else {}))

    @rule(name=names)
    def answer_inverse_offers(self, name: str) -> None:
        framework = self.framework(name)
        if framework is not None:
            asked = {"inverse_offer_ids": [{"value": offer_id} for offer_id in framework.inverse_offers]}
            self.does(AcceptInverseOffers(framework.id, asked))

    @rule(name=names, count=st.integers(1, 3), bad=st.sampled_from(BAD), pick=st.integers(0, 9))
    def accept(self, name: str, count: int, bad: str | None, pick: int) -> None:
        framework = self.framework(name)
        if framework is None:
            return
        if not framework.offers:
            for other in ["plain", "gpu", "ml"]:
                self.decline(other, refuse=5.0)
            self.revive(name)
            self.allocate()
        for offer in list(framework.offers.values())[pick % 2 : pick % 2 + 1]:
            tasks = [self.task(offer.agent_id, part) for part in parts_of(offer.resources, count)]
            tasks += [] if bad is None else [self.task(offer.agent_id, resources_of(bad))]
            tasks += tasks[:1] if pick == 9 else []
            operation = {"type": "LAUNCH", "launch": {"task_infos": tasks}}
            body = {"offer_ids": [{"value": offer.id}], "operations": [operation]}
            self.does(Accept(framework.id, body))

    @rule(port=ports, back=often, drain=st.booleans())
    def take_out_of_use(self, port: int, back: bool, drain: bool) -> None:
        """An operator deactivates or drains an agent, and mostly thinks better of it."""
        agent_id = self.ids.get(port, "")
        with suppress(BadInput):  # it is not known any more, or drains still
            self.does(DrainAgent(agent_id, {}) if drain else DeactivateAgent(agent_id))
            if agent_id in self.state.agents and not len(self.registry):
                assert not self.state.agents[agent_id].offers
            self.allocate()
            if back:
                self.does(ReactivateAgent(agent_id))

    @invariant()
    def nothing_of_a_deactivated_agent_is_offered(self) -> None:
        for agent in self.state.agents.values():
            assert agent.deactivated == (agent.id in self.state.deactivated)
            assert agent.active or not agent.offers

    @invariant()
    def what_is_drained_runs_nothing(self) -> None:
        for agent in self.state.agents.values():
            done = agent.drain is not None and agent.drain.done
            assert not done or all(task.ended for task in agent.tasks.values())

    def task(self, agent_id: str, resources: list[Document]) -> Document:
        self.made += 1
        return {
            "name": "t",
            "task_id": {"value": f"t{self.made}"},
            "agent_id": {"value": agent_id},
            "resources": resources,
            "command": {"value": "true"},
        }

    @rule(port=ports, by=st.sampled_from(["plain", "gpu", "ml", "operator"]), undo=st.booleans(), gpu=st.booleans())
    def reserve(self, port: int, by: str, undo: bool, gpu: bool) -> None:
        """Whoever it is reserves a GPU or a little CPU for role ml, or gives it back."""
        part = Resource("gpus", 1000) if gpu else Resource("cpus", 100)
        document = part.pushed(Reservation("ml", "DYNAMIC")).to_json(refined=True)
        operation: Document = {"type": "RESERVE", "reserve": {"resources": [document]}}
        if undo:
            operation = {"type": "UNRESERVE", "unreserve": {"resources": [document]}}
        agent = self.state.agents.get(self.ids.get(port, ""))
        if agent is None or not agent.connected:
            return
        before = agent.total
        if by == "operator":
            try:
                self.does(Operate(agent.id, operation))
            except (BadInput, Conflict):
                assert agent.total == before
            else:
                assert agent.total != before
            return
        framework = self.framework(by)
        if framework is None:
            return
        if not any(offer.agent_id == agent.id for offer in framework.offers.values()):
            for other in ["plain", "gpu", "ml"]:
                self.decline(other, refuse=5.0)
            self.revive(by)
            self.allocate()
            before = agent.total
        offer = next((o for o in framework.offers.values() if o.agent_id == agent.id), None)
        if offer is not None:
            body = {"offer_ids": [{"value": offer.id}], "operations": [operation]}
            self.does(Accept(framework.id, body))
            assert by == "ml" or undo or agent.total == before, "nobody reserves for a role of others"

    @rule(name=names, refuse=st.sampled_from([0.0, 1.0, 5.0]))
    def decline(self, name: str, refuse: float) -> None:
        framework = self.framework(name)
        if framework is not None:
            ids = [{"value": offer_id} for offer_id in framework.offers]
            body = {"offer_ids": ids, "filters": {"refuse_seconds": refuse}}
            self.does(Decline(framework.id, body))

    @rule(name=names)
    def revive(self, name: str) -> None:
        framework = self.framework(name)
        if framework is not None:
            self.does(Revive(framework.id, {}))

    @invariant()
    def what_is_kept_of_slaves_is_what_they_are(self) -> None:
        if hasattr(self, "state"):
            self.pages = getattr(self, "pages", None) or AgentPages()
            assert self.pages.page(self.state) == to_json(slaves_view(self.state, None))

    @invariant()
    def the_books_agree(self) -> None:
        if hasattr(self, "state"):
            check_books(self.state)
            for port, agent_id in self.ids.items():
                known = self.state.agents.get(agent_id)
                if known is not None:
                    assert known.total == with_kept(Resources.parse(self.sizes[port]), self.kept[port])
                    assert set(known.operations) <= {one.uuid for one in self.untold[port]}
            for framework in self.state.frameworks.values():
                for offer_id, agent_id in framework.inverse_offers.items():
                    assert self.state.drainages[agent_id].outstanding[framework.id] == offer_id
                capable = "GPU_RESOURCES" in framework.capabilities
                for offer in framework.offers.values():
                    assert capable or not self.state.agents[offer.agent_id].total.gpus
                assert all(is_ended_or_known(task, self.state) for task in framework.tasks.values())


def parts_of(offered: Resources, count: int) -> list[list[Document]]:
    """What `count` tasks take of an offer: a little of its CPUs, and a GPU each while there are any."""
    parts = []
    for _ in range(count):
        cpus = offered.find("cpus", 100, ["*", "ml"]) or Resources()
        gpus = offered.find("gpus", 1000, ["*", "ml"]) or Resources()
        offered = offered - cpus - gpus
        parts.append((cpus + gpus).unallocated().to_json())
    return parts


def is_ended_or_known(task: Task, state: MasterState) -> bool:
    return is_terminal(task.state) or Resources.from_json(task.document["resources"]) == task.resources


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(60), stateful_step_count=40)


@pytest.mark.parametrize("seed", range(3))
def test_long_histories_keep_the_books_too(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", range(3))
def test_so_do_those_in_which_writing_the_registry_takes_long(seed: int) -> None:
    play(seed, slow=True)


def play(seed: int, *, slow: bool = False) -> None:
    dice = Random(seed)
    history = Histories()
    history.begin()
    port, name = (lambda: dice.choice([5051, 5052])), (lambda: dice.choice(["plain", "gpu", "ml"]))
    seldom = lambda: dice.random() < 0.2  # noqa: E731
    steps = [
        (30, lambda: history.accept(name(), dice.randint(1, 3), dice.choice(BAD), dice.randint(0, 9))),
        (25, lambda: history.end_a_task(port(), dice.choice(ENDS), not seldom(), not seldom())),
        (10, lambda: history.decline(name(), dice.choice([0.0, 1.0, 5.0]))),
        (8, history.wait),
        (
            8,
            lambda: history.reserve(
                port(), dice.choice(["gpu", "ml", "ml", "operator"]), dice.random() < 0.4, dice.random() < 0.5
            ),
        ),
        (4, lambda: history.tell_of_an_operation(port())),
        (8, lambda: history.come_back(port(), seldom() and seldom())),
        (3, lambda: history.break_link(port(), True)),
        (2, lambda: history.fall_silent(port(), True)),
        (2, lambda: history.change_quota(dice.randint(0, 3), dice.randint(0, 3), dice.choice(["*", "ml"]))),
        (1, lambda: history.change_weight(dice.choice(["*", "ml"]), dice.choice([0.5, 4.0]))),
        (2, lambda: history.schedule_maintenance(seldom())),
        (2, lambda: history.answer_inverse_offers(name())),
        (2, lambda: history.register(port(), dice.choice(SIZES))),
        (2, lambda: history.subscribe(name(), True, True)),
        (1, lambda: history.hang_up(name(), seldom(), True)),
        (1, lambda: history.remove_framework(name(), seldom())),
        (1, lambda: history.restart_the_master(True)),
    ]
    if slow:
        steps += [
            (4, lambda: history.change_the_pace(dice.random() < 0.7)),
            (8, lambda: history.write_the_registry(all_of_it=seldom())),
            (4, lambda: history.ask_to_come_back(port(), seldom() and seldom())),
            (4, lambda: history.take_out_of_use(port(), not seldom(), dice.random() < 0.3)),
        ]
    for _ in range(600):
        [step] = dice.choices([step for _, step in steps], [weight for weight, _ in steps])
        step()
        history.the_books_agree()
        history.nothing_of_a_deactivated_agent_is_offered()
        history.what_is_drained_runs_nothing()
        history.the_registry_says_what_the_books_say()
