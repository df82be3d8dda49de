"""The master's events over a registry that is written in no time: what follows a change follows at once, behind it.

`agents.register(state, report)` from here returns the Store and all that came after it was durable.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from mesos_gpu.master.decisions import agents as _agents
from mesos_gpu.master.decisions import draining as _draining
from mesos_gpu.master.decisions import maintenance as _maintenance
from mesos_gpu.master.decisions import readmission as _readmission
from mesos_gpu.master.decisions import roles as _roles
from mesos_gpu.master.decisions.handle import decide
from mesos_gpu.master.state.actions import Action, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.moment import Moment
from tests.support.master.build import NOW


def stored(state: MasterState, actions: list[Action], now: Moment = NOW) -> list[Action]:
    """The actions, each Store with what follows it behind it."""
    done: list[Action] = []
    for action in actions:
        done.append(action)
        if isinstance(action, Store):
            done += stored(state, decide(state, action.then, now), now)
    return done


class _AtOnce:
    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found):
            return found

        def call(*words: Any, **more: Any) -> Any:
            result = found(*words, **more)
            if not words or not isinstance(words[0], MasterState) or not isinstance(result, list):
                return result
            now = next((word for word in words if isinstance(word, Moment)), NOW)
            return stored(words[0], result, now)

        return call


agents, draining, maintenance = _AtOnce(_agents), _AtOnce(_draining), _AtOnce(_maintenance)
readmission, roles = _AtOnce(_readmission), _AtOnce(_roles)
