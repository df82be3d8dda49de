"""Which frameworks and tasks an agent has, and remembers having had."""

from __future__ import annotations

from mesos_gpu.agent.decisions.collecting import is_within
from mesos_gpu.agent.model.executors import Executor, ExecutorKey
from mesos_gpu.agent.model.tasks import Framework, Task
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.resource import Document

MAX_COMPLETED_FRAMEWORKS = 50


class Roster:
    """Frameworks with tasks (`frameworks`), and the last ones whose tasks are all over (`completed`), by id."""

    def __init__(self) -> None:
        self.frameworks: dict[str, Framework] = {}
        self.completed: dict[str, Framework] = {}
        self.parted: list[str] = []
        """The ids of frameworks that have become completed, since somebody emptied this list."""

    def tasks(self) -> list[Task]:
        """Return every task that is not completely over."""
        return [task for framework in self.frameworks.values() for task in framework.tasks.values()]

    def executors(self) -> list[Executor]:
        """Return every executor that is not completely over."""
        return [executor for framework in self.frameworks.values() for executor in framework.executors.values()]

    def executor(self, key: ExecutorKey) -> Executor | None:
        """Return an executor that is not completely over, or None."""
        framework = self.frameworks.get(key.framework)
        return None if framework is None else framework.executors.get(key.executor)

    def task(self, key: TaskKey | ExecutorKey) -> Task | None:
        """Return a task that is not completely over, or None; an executor is no task."""
        if isinstance(key, ExecutorKey):
            return None
        framework = self.frameworks.get(key.framework)
        return None if framework is None else framework.tasks.get(key.task)

    def past(self, key: TaskKey) -> Task | None:
        """Return a task that is completely over and still remembered, or None."""
        framework = self.frameworks.get(key.framework) or self.completed.get(key.framework)
        if framework is None:
            return None
        hosts = [*framework.executors.values(), *(one for one in framework.completed if isinstance(one, Executor))]
        tasks = [one for one in framework.completed if isinstance(one, Task)]
        tasks += [task for host in hosts for task in host.completed]
        return next((task for task in reversed(tasks) if task.key == key), None)

    def both(self, key: TaskKey | ExecutorKey) -> tuple[Framework, Task]:
        """Return a task that must be here, with its framework."""
        framework, task = self.frameworks[key.framework], self.task(key)
        if task is None:
            raise KeyError(key)
        return framework, task

    def meet(self, info: Document) -> Framework:
        """Return the framework of this FrameworkInfo, new or known or once known, with the info taken over."""
        framework_id = info["id"]["value"]
        framework = self.frameworks.get(framework_id) or self.completed.pop(framework_id, None)
        if framework is None or framework.silenced:
            framework = Framework(info)
        # Whether it checkpoints was settled when its first task came (the master refuses a change, too).
        framework.info = {**info, "checkpoint": framework.checkpoint}
        self.frameworks[framework_id] = framework
        return framework

    def remove(self, framework: Framework, task: Task) -> None:
        """Take a task off the list; its framework too, when that was its last."""
        framework.tasks.pop(task.key.task, None)
        host = framework.executors.get(task.executor_id) if task.hosted else None
        if host is not None and host.container_id == task.container_id:
            host.completed.append(task)
        elif task.container_id is not None and not task.hosted:
            framework.completed.append(task)
        self.part_from(framework)

    def retire(self, framework: Framework, executor: Executor) -> None:
        """Take an executor off the list; its framework too, when that was its last."""
        if framework.executors.pop(executor.key.executor, None) is not None:
            framework.completed.append(executor)
        self.part_from(framework)

    def note_collected(self, folder: str) -> None:
        """Take note that the sandboxes in a folder are gone; they are those of runs that are over."""
        for framework in (*self.frameworks.values(), *self.completed.values()):
            for run in framework.completed:
                if is_within(run.sandbox, folder):
                    run.collected = True

    def part_from(self, framework: Framework) -> None:
        """Count a framework without tasks and executors among the completed ones."""
        if not framework.tasks and not framework.executors and self.frameworks.pop(framework.id, None) is not None:
            self.completed[framework.id] = framework
            self.parted.append(framework.id)
            while len(self.completed) > MAX_COMPLETED_FRAMEWORKS:
                del self.completed[next(iter(self.completed))]
