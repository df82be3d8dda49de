"""Which folders an agent shows by /files: sandboxes under their virtual paths, and its own log; and to whom.

Source: Mesos src/slave/slave.cpp (Framework::addExecutor, attachTaskVolumeDirectory: the paths that are attached).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from mesos_gpu.agent.decisions import permissions
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.paths import latest_path, virtual_latest_path
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.mesos.security.viewing import Viewer

LOG = "/slave/log"


class _Root(Struct, frozen=True):
    """A virtual path, the real folder or file there, and whose it is (None: the agent's own)."""

    path: str
    folder: str
    whose: tuple[Framework, Task | Executor] | None = None


class SandboxesShown:
    """The virtual paths of one agent. `log_file` is its log, None if it has no file."""

    def __init__(self, state: Callable[[], AgentState], log_file: str | None) -> None:
        self._state, self._log_file = state, log_file

    def folder_of(self, path: str) -> tuple[str, str] | None:
        """Return the virtual root and the real folder of the sandbox that a virtual path lies in."""
        found = self._find(path)
        return None if found is None else (found.path, found.folder)

    def folders(self) -> dict[str, str]:
        """Return every virtual root with its real folder, or file."""
        return {root.path: root.folder for root in reversed(list(self._roots()))}

    def may_see(self, path: str, viewer: Viewer) -> bool:
        """Return whether somebody may look at what lies at a virtual path; what is not there he may look for."""
        found = self._find(path)
        if found is None:
            return True
        return viewer.may("access_mesos_logs") if found.whose is None else permissions.may_enter(viewer, *found.whose)

    def _find(self, path: str) -> _Root | None:
        return next((root for root in self._roots() if path == root.path or path.startswith(f"{root.path}/")), None)

    def _roots(self) -> Iterator[_Root]:
        """Yield the roots; where two have one path, the first counts."""
        if self._log_file is not None:
            yield _Root(LOG, self._log_file)
        state = self._state()
        identity = state.identity
        for framework in (*state.frameworks.active.values(), *state.frameworks.completed.values()):
            # The newest run first, so that `latest` is its.
            live: list[Task | Executor] = [*framework.tasks.values(), *framework.executors.values()]
            for task in (*live, *reversed(framework.completed)):
                if task.sandbox and not task.collected:
                    name = task.key.executor if isinstance(task, Executor) else task.executor_id
                    latest = latest_path(identity.work_dir, identity.agent_id, framework.id, name)
                    for path in (task.sandbox, latest, virtual_latest_path(framework.id, name)):
                        yield _Root(path, task.sandbox, (framework, task))
