"""Apps and offers in the words of placement: what one instance asks for, and what an offer has left."""

from __future__ import annotations

from collections.abc import Iterable

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import fulfilled
from mesos_gpu.marathon.matching.offers import Offer, nobodys
from mesos_gpu.mesos.resource import milli
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.placement.demand import WHOLE, Demand, Machine

POLICY_LABEL = "PLACEMENT_POLICY"
"""An app's own choice of policy."""
MODEL = "gpu_model"
"""The attribute by which agents tell the model of their GPUs (--gpu_attributes)."""
_OF_ONE_AGENT = ("IS", "LIKE", "UNLIKE", "CLUSTER")
_NONE_OF_THESE = frozenset({"no model that is offered"})


def demand(spec: RunSpec, models: Iterable[Offer] = ()) -> Demand:
    """Return what one instance asks for, with its executor. `models`: an offer of each model of GPU that there is."""
    beside = spec.executor_resources
    cpus = milli(spec.document["cpus"]) + milli(beside.get("cpus", 0))
    mem = milli(spec.document["mem"]) + milli(beside.get("mem", 0))
    # What is not a whole MiB counts as one.
    return Demand(cpus, -(-mem // 1000), spec.gpus, models=_models(spec, tuple(models)) if spec.gpus else frozenset())


def machine(offer: Offer, left: Resources) -> Machine:
    """Return what is left of an offer for tasks that have nothing reserved; its GPUs are whole ones."""
    left = nobodys(left)
    return Machine(left.milli("cpus"), left.milli("mem") // 1000, (WHOLE,) * left.gpus, model(offer))


def model(offer: Offer) -> str:
    """Return the model of its GPUs; empty when the agent does not tell."""
    return next((text for name, text in offer.attributes if name == MODEL), "")


def _models(spec: RunSpec, models: tuple[Offer, ...]) -> frozenset[str]:
    """Return the models that its constraints leave; empty when they leave all."""
    asked = [c for c in spec.document["constraints"] if c[0] == MODEL and c[1].upper() in _OF_ONE_AGENT]
    asked = [c for c in asked if c[1].upper() != "CLUSTER" or len(c) > 2]
    if not asked or not models:
        return frozenset()
    suited = {model(offer) for offer in models if all(fulfilled(c, offer, (), spec.instances) for c in asked)}
    return frozenset() if len(suited) == len(models) else frozenset(suited) or _NONE_OF_THESE
