"""The book of frameworks: which of them have tasks here, and which had some."""

from __future__ import annotations

from msgspec import Struct, field

from mesos_gpu.agent.decisions.collecting import is_within
from mesos_gpu.agent.model.executors import Executor, ExecutorKey
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.documents import FrameworkInfo
from mesos_gpu.mesos.ids import FrameworkId

MAX_COMPLETED_FRAMEWORKS = 50


class Frameworks(Struct):
    """Frameworks with tasks (`active`), and the last ones whose tasks are all over (`completed`), by id."""

    active: dict[FrameworkId, Framework] = field(default_factory=dict)
    completed: dict[FrameworkId, Framework] = field(default_factory=dict)
    newly_completed: list[FrameworkId] = field(default_factory=list)
    """The ids of frameworks that have become completed, since somebody emptied this list."""
    fewer: bool = False
    """Whether a task or an executor is not here any more, since somebody set it back."""

    def tasks(self) -> list[Task]:
        """Return every task that is not completely over."""
        return [task for framework in self.active.values() for task in framework.tasks.values()]

    def executors(self) -> list[Executor]:
        """Return every executor that is not completely over."""
        return [executor for framework in self.active.values() for executor in framework.executors.values()]

    def executor(self, key: ExecutorKey) -> Executor | None:
        """Return an executor that is not completely over, or None."""
        framework = self.active.get(key.framework)
        return None if framework is None else framework.executors.get(key.executor)

    def task(self, key: TaskKey | ExecutorKey) -> Task | None:
        """Return a task that is not completely over, or None; an executor is no task."""
        if isinstance(key, ExecutorKey):
            return None
        framework = self.active.get(key.framework)
        return None if framework is None else framework.tasks.get(key.task)

    def past_task(self, key: TaskKey) -> Task | None:
        """Return a task that is completely over and still remembered, or None."""
        framework = self.active.get(key.framework) or self.completed.get(key.framework)
        if framework is None:
            return None
        past_executors = [run for run in framework.completed if isinstance(run, Executor)]
        tasks = [run for run in framework.completed if isinstance(run, Task)]
        for executor in (*framework.executors.values(), *past_executors):
            tasks += executor.completed
        return next((task for task in reversed(tasks) if task.key == key), None)

    def with_task(self, key: TaskKey | ExecutorKey) -> tuple[Framework, Task]:
        """Return a task that must be here, with its framework."""
        framework, task = self.active[key.framework], self.task(key)
        if task is None:
            raise KeyError(key)
        return framework, task

    def enter(self, info: FrameworkInfo) -> Framework:
        """Return the framework of this FrameworkInfo, new or known or once known, with the info taken over."""
        framework_id = info["id"]["value"]
        framework = self.active.get(framework_id) or self.completed.pop(framework_id, None)
        if framework is None or framework.silenced:
            framework = Framework(info)
        # Whether it checkpoints was settled when its first task came (the master refuses a change, too).
        framework.info = {**info, "checkpoint": framework.checkpoint}
        self.active[framework_id] = framework
        return framework

    def remove_task(self, framework: Framework, task: Task) -> None:
        """Take a task off the list; its framework too, when that was its last."""
        self.fewer = True
        framework.tasks.pop(task.key.task, None)
        executor = framework.executors.get(task.executor_id) if task.hosted else None
        if executor is not None and executor.container_id == task.container_id:
            executor.completed.append(task)
        elif task.container_id is not None and not task.hosted:
            framework.completed.append(task)
        self.complete_if_idle(framework)

    def remove_executor(self, framework: Framework, executor: Executor) -> None:
        """Take an executor off the list; its framework too, when that was its last."""
        self.fewer = True
        if framework.executors.pop(executor.key.executor, None) is not None:
            framework.completed.append(executor)
        self.complete_if_idle(framework)

    def note_collected(self, folder: str) -> None:
        """Take note that the sandboxes in a folder are gone; they are those of runs that are over."""
        for framework in (*self.active.values(), *self.completed.values()):
            for run in framework.completed:
                if is_within(run.sandbox, folder):
                    run.collected = True

    def complete_if_idle(self, framework: Framework) -> None:
        """Count a framework without tasks and executors among the completed ones."""
        if not framework.tasks and not framework.executors and self.active.pop(framework.id, None) is not None:
            self.completed[framework.id] = framework
            self.newly_completed.append(framework.id)
            while len(self.completed) > MAX_COMPLETED_FRAMEWORKS:
                del self.completed[next(iter(self.completed))]
