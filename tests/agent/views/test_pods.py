"""Tasks as pods of a kubelet's API."""

from __future__ import annotations

from typing import Any

from mesos_gpu.agent.views.pods import PodShown, pods_shown
from mesos_gpu.mesos.ids import ContainerId


class Named:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Frameworks:
    """Two executors, one of which has ended, a task of the other, and two tasks of their own."""

    def executors(self) -> list[Any]:
        key = Named(executor="e", framework="f")
        ended = Named(key=key, container_id="gone", over=True)
        return [Named(key=key, container_id=ContainerId("ce"), over=False), ended]

    def tasks(self) -> list[Any]:
        def task(name: str, container: str | None, hosted: bool = False) -> Any:
            key = Named(task=name, framework="f")
            return Named(key=key, info={"name": f"the {name}"}, container_id=container, hosted=hosted)

        return [task("b", "cb"), task("a", "ca"), task("in-e", "ce", hosted=True), task("never", None)]


def test_tasks_and_executors_are_pods_with_what_their_container_holds() -> None:
    held = {ContainerId("ca"): {"x/y": ["2", "1"], "nvidia.com/gpu": []}, ContainerId("ce"): {"nvidia.com/gpu": ["u"]}}
    frameworks: Any = Frameworks()
    assert pods_shown(frameworks, held) == (
        PodShown("a", "f", "the a", {"x/y": ("1", "2")}),
        PodShown("b", "f", "the b", {}),
        PodShown("e", "f", "executor", {"nvidia.com/gpu": ("u",)}),
    )
