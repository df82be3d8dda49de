"""A pymesos framework that runs tasks under Cook's executor, as Cook does: the command stands in the task's data.

Prints as JSON the states of each task and the messages that the executor sent.
"""

import base64
import json
import sys
import threading

from pymesos import MesosSchedulerDriver, Scheduler

master, executor = sys.argv[1:]
COMMANDS = {"well": "nvidia-smi -L > gpus; echo progress: 50 half; sleep 1", "ill": "exit 3", "long": "sleep 1000"}
seen = {"states": {name: [] for name in COMMANDS}, "messages": []}
ended, lock = threading.Event(), threading.Lock()


def scalar(name, value):
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}}


class Cook(Scheduler):
    def __init__(self):
        self.launched = False

    def resourceOffers(self, driver, offers):
        for offer in offers:
            if self.launched:
                driver.declineOffer(offer["id"])
                continue
            self.launched = True
            tasks = [
                {
                    "name": name,
                    "task_id": {"value": name},
                    "agent_id": dict(offer["agent_id"]),
                    "resources": [scalar("cpus", 0.1), scalar("mem", 64), scalar("gpus", 1)],
                    "data": base64.b64encode(json.dumps({"command": command}).encode()).decode(),
                    "executor": {
                        "executor_id": {"value": name},
                        "framework_id": dict(offer["framework_id"]),
                        "name": "cook",
                        "command": {"value": executor},
                        "resources": [scalar("cpus", 0.1), scalar("mem", 64)],
                    },
                }
                for name, command in COMMANDS.items()
            ]
            driver.launchTasks(offer["id"], tasks)

    def statusUpdate(self, driver, update):
        with lock:
            name, state = update["task_id"]["value"], update["state"]
            seen["states"][name].append(state)
            if name == "long" and state == "TASK_RUNNING":
                driver.killTask(update["task_id"])
            finals = [states[-1:] for states in seen["states"].values()]
            if all(last and last[0] in ("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_LOST") for last in finals):
                ended.set()

    def frameworkMessage(self, driver, executor_id, agent_id, message):
        seen["messages"].append(json.loads(base64.b64decode(message)))


info = {"user": "root", "name": "cook", "capabilities": [{"type": "GPU_RESOURCES"}]}
driver = MesosSchedulerDriver(Cook(), info, master)
driver.start()
seen["ended"] = ended.wait(80)
driver.stop()
print(json.dumps(seen))
