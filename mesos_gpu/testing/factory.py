"""Boxes by the call: what the fixtures hand out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from mesos_gpu.errors import MesosGpuError, Unavailable
from mesos_gpu.testing.box import MesosBox
from mesos_gpu.testing.client import ForkServerClient
from mesos_gpu.testing.plan import RESOURCES, BoxWishes, Each, Value


def _refuse(why: str) -> NoReturn:
    raise Unavailable(why)


class Home:
    """What the boxes of one test run share: a folder, and the process that their services are forked from."""

    def __init__(self, folder: Path, refuse: Callable[[str], NoReturn] = _refuse) -> None:
        """`refuse` is called with the reason where this machine can have no box; it must not return."""
        self.refuse = refuse
        self._folder = folder
        self._fork_server: ForkServerClient | None = None
        self._made = 0

    def make(self, wishes: BoxWishes) -> MesosBox:
        """Bring up a box; see BoxFactory."""
        if wishes.count() and os.geteuid() != 0:
            self.refuse("agents put their tasks into containers, which needs root")
        if self._fork_server is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._fork_server = ForkServerClient(self._folder / "fork-server.log")
        self._made += 1
        return MesosBox(self._fork_server, self._folder / str(self._made), wishes)

    def close(self) -> None:
        """End whatever is left of all boxes."""
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None


class BoxFactory:
    """Makes boxes, each on free ports and in a folder of its own; all of them end with `close` at the latest."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.boxes: list[MesosBox] = []

    def __call__(
        self,
        *,
        gpus: Each[int] = 4,
        agents: int | None = None,
        attributes: Each[Mapping[str, Value]] | None = None,
        resources: Each[str] = RESOURCES,
        ill_gpus: Each[Mapping[int, int]] | None = None,
        docker_registry: str | Path | None = None,
        master_flags: Mapping[str, Value] | None = None,
        agent_flags: Each[Mapping[str, Value]] | None = None,
        marathon: bool = False,
    ) -> MesosBox:
        """Bring a box up and return it once its agents are registered.

        Whatever says something of agents is one value for all of them, or a sequence with one for each:
        `gpus` simulated ones, none for 0; `attributes`; `resources` beside GPUs, as in --resources; `ill_gpus`, XIDs by
        GPU index, from the start; `agent_flags` of mesos-gpu-agent, without dashes. `agents` is how many, else what the
        sequences say, else 1. `docker_registry`: where images come from; a folder of archives, or anything else that
        the agent's flag takes; without it agents take no images. `marathon`: whether one runs, too.

        Raises BadInput for what no box can be, Unavailable when a service does not come up; then nothing is left of it.
        Agents need root; without, what the fixture does is to skip the test. A box with `agents=0` does not.
        """
        registry = docker_registry.absolute() if isinstance(docker_registry, Path) else docker_registry
        wishes = BoxWishes(
            gpus=gpus,
            agents=agents,
            attributes=attributes or {},
            resources=resources,
            ill_gpus=ill_gpus or {},
            docker_registry=None if registry is None else str(registry),
            master_flags=master_flags or {},
            agent_flags=agent_flags or {},
            marathon=marathon,
        )
        box = self.home.make(wishes)
        self.boxes.append(box)
        return box

    def close(self) -> None:
        """End its boxes. Raises what the first one that left something behind raised, after all were ended."""
        errors = []
        while self.boxes:
            try:
                self.boxes.pop().down()
            except MesosGpuError as error:
                errors.append(error)
        if errors:
            raise errors[0]
