"""A custom executor with a driver as libmesos': it speaks libprocess (src/exec/exec.cpp). `exit N` ends it so."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from base64 import b64decode, b64encode
from uuid import uuid4

from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app

PREFIX = "mesos.internal."
PROCESS = "executor(1)"


class EchoDriver:
    """Runs tasks that do nothing until they are killed; answers messages; waits for an agent that went away."""

    def __init__(self) -> None:
        self.endpoint = Endpoint(os.environ["LIBPROCESS_IP"], 0)
        self.agent = Pid.parse(os.environ["MESOS_SLAVE_PID"])
        self.ids: Document = {
            "framework_id": {"value": os.environ["MESOS_FRAMEWORK_ID"]},
            "executor_id": {"value": os.environ["MESOS_EXECUTOR_ID"]},
        }
        self.agent_id = {"value": os.environ["MESOS_SLAVE_ID"]}
        self.connected = False
        self.done = asyncio.Event()
        self.tasks: dict[str, Document] = {}
        self.updates: dict[str, Document] = {}

    async def run(self) -> None:
        """Register, and go on until told to end."""
        await self.endpoint.start(make_app())
        self.endpoint.spawn(PROCESS, self.on_message, self.on_exited)
        self.endpoint.link(PROCESS, self.agent)
        self.say("RegisterExecutorMessage", self.ids)
        await self.done.wait()
        await self.endpoint.stop()

    def say(self, name: str, document: Document) -> None:
        """Send the agent a message."""
        self.endpoint.send(PROCESS, self.agent, PREFIX + name, encode(PREFIX + name, document))

    def update(self, task_id: Document, state: str, message: str = "") -> None:
        """Report a state of a task, as MesosExecutorDriver::sendStatusUpdate; kept until it is acknowledged."""
        uuid = b64encode(uuid4().bytes).decode()
        status = {"task_id": task_id, "state": state, "source": "SOURCE_EXECUTOR", "message": message, "uuid": uuid}
        status |= {"slave_id": self.agent_id, "executor_id": self.ids["executor_id"], "timestamp": time.time()}
        update = {**self.ids, "slave_id": self.agent_id, "status": status, "timestamp": time.time(), "uuid": uuid}
        self.updates[uuid] = update
        self.say("StatusUpdateMessage", {"update": update, "pid": str(self.endpoint.pid(PROCESS))})

    def on_exited(self, pid: Pid) -> None:
        """Wait for the agent when the framework checkpoints, else end."""
        if os.environ.get("MESOS_CHECKPOINT") != "1" or not self.connected:
            self.done.set()
        self.connected = False

    def on_message(self, message: Message) -> None:
        """Do what the agent says."""
        name, body = message.name.removeprefix(PREFIX), decode(message.name, message.body)
        match name:
            case "ExecutorRegisteredMessage":
                self.connected = True
                print("registered", body["executor_info"]["executor_id"]["value"], body["slave_info"]["hostname"])
            case "ExecutorReregisteredMessage":
                self.connected = True
                print("reregistered", len(self.tasks), len(self.updates))
            case "ReconnectExecutorMessage":
                self.agent = message.sender
                self.endpoint.link(PROCESS, self.agent)
                known = {"updates": list(self.updates.values()), "tasks": list(self.tasks.values())}
                self.say("ReregisterExecutorMessage", {**self.ids, **known})
            case "RunTaskMessage":
                self.tasks[body["task"]["task_id"]["value"]] = body["task"]
                self.update(body["task"]["task_id"], "TASK_RUNNING")
            case "StatusUpdateAcknowledgementMessage":
                self.updates.pop(body["uuid"], None)
                self.tasks.pop(body["task_id"]["value"], None)
            case "KillTaskMessage":
                self.update(body["task_id"], "TASK_KILLED", "asked to")
            case "FrameworkToExecutorMessage":
                text = b64decode(body["data"]).decode()
                if text.startswith("exit "):
                    os._exit(int(text.split()[1]))
                answer = {"slave_id": self.agent_id, "data": b64encode(f"you said {text}".encode()).decode()}
                self.say("ExecutorToFrameworkMessage", {**self.ids, **answer})
            case "ShutdownExecutorMessage":
                print("shutdown")
                self.done.set()
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(EchoDriver().run())
