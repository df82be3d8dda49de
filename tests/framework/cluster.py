"""A master's state with one agent and one framework, for what authors build to be tried on."""

from __future__ import annotations

import json

from mesos_gpu.master.decisions import launching, offering, subscriptions
from mesos_gpu.master.model.model import Offer
from mesos_gpu.master.state.actions import Action
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from tests.support.master.build import NOW, add_agent, check_books, events, new_state, offers

AGENT = "cpus:8;gpus:4;mem:4096;disk:4096;ports:[31000-31009]"
RESERVED = (
    "cpus:2;cpus(ml):6;gpus:1;gpus(ml):3;mem:1024;mem(ml):3072;disk:4096;ports:[31000-31004];ports(ml):[31005-31009]"
)


class Cluster:
    """A master's state with one agent, and a framework subscribed with what framework_info made."""

    def __init__(self, resources: str, info: Document) -> None:
        self.state: MasterState = new_state()
        self.agent = add_agent(self.state, resources)
        told = subscriptions.subscribe(self.state, "stream", {"framework_info": info}, NOW)
        assert next(event["type"] for event in events(told)) == "SUBSCRIBED"
        [self.framework] = self.state.frameworks.values()

    def offer(self) -> tuple[Offer, Document]:
        """Return the one offer that is out, and what the framework was sent of it."""
        actions = offering.offer_resources(self.state, NOW)
        [sent] = [offer for event in events(actions, "OFFERS") for offer in event["offers"]]
        [offer] = offers(self.state)
        return offer, json.loads(json.dumps(sent))

    def accept(self, offer: Offer, *operations: Document) -> list[Action]:
        travelled = json.loads(json.dumps(operations))
        body = {"offer_ids": [{"value": offer.id}], "operations": travelled, "filters": {"refuse_seconds": 0}}
        actions = launching.accept(self.state, self.framework, body, NOW)
        check_books(self.state)
        return actions
