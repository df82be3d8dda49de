"""A custom executor on pymesos, as its users write them: run by tests inside a container. `exit N` ends it so."""

from __future__ import annotations

import os
import sys
from base64 import b64decode, b64encode
from typing import Any

from addict import Dict
from pymesos import Executor, MesosExecutorDriver


class Echo(Executor):  # type: ignore[misc]  # pymesos has no types
    """Runs tasks that do nothing until they are killed; answers messages."""

    def registered(self, driver: Any, executor_info: Any, framework_info: Any, agent_info: Any) -> None:
        print("registered", executor_info.executor_id.value, agent_info.hostname, flush=True)

    def reregistered(self, driver: Any, agent_info: Any) -> None:
        print("reregistered", flush=True)

    def launchTask(self, driver: Any, task: Any) -> None:
        print("launch", task.task_id.value, flush=True)
        driver.sendStatusUpdate(Dict(task_id=task.task_id, state="TASK_RUNNING"))

    def killTask(self, driver: Any, task_id: Any) -> None:
        driver.sendStatusUpdate(Dict(task_id=task_id, state="TASK_KILLED", message="asked to"))

    def frameworkMessage(self, driver: Any, message: Any) -> None:
        text = b64decode(message).decode()
        print("message", text, flush=True)
        if text.startswith("exit "):
            os._exit(int(text.split()[1]))
        driver.sendFrameworkMessage(b64encode(f"you said {text}".encode()).decode())

    def shutdown(self, driver: Any) -> None:
        print("shutdown", flush=True)

    def error(self, driver: Any, message: Any) -> None:
        print("error", message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    driver = MesosExecutorDriver(Echo(), use_addict=True)
    driver.run()
