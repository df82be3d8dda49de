"""mentos: subscribe, run a task with a GPU to its end, kill another. Prints what it saw as JSON.

It was written for Tornado 4 on Python 3.6: what Python has moved or forbidden since is put back first.
"""

import collections
import collections.abc
import json
import os
import sys
import threading

collections.MutableMapping = collections.abc.MutableMapping


def drain(futures):
    """As its own, which lets StopIteration out of a generator (PEP 479)."""
    while futures:
        yield futures.popleft() if hasattr(futures, "popleft") else futures.pop()


import mentos.states  # noqa: E402

mentos.states.drain = drain
from mentos import SchedulerDriver  # noqa: E402


def scalar(name, value):
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}}


class Scheduler:
    def __init__(self):
        self.states = {"ends": [], "killed": []}
        self.heard = []
        self.waiting = list(self.states)
        self.done = threading.Event()

    def on_offers(self, driver, offers):
        for offer in offers:
            if not self.waiting:
                driver.decline([offer["id"]])
                continue
            name = self.waiting.pop(0)
            task = {
                "name": name,
                "task_id": {"value": name},
                "agent_id": offer["agent_id"],
                "command": {"value": "true" if name == "ends" else "sleep 1000"},
                "resources": [scalar("cpus", 0.1), scalar("mem", 32), scalar("gpus", 1)],
            }
            driver.launch([offer["id"]], [task], filters={"refuse_seconds": 0})

    def on_update(self, driver, status):
        name, state = status["task_id"]["value"], status["state"]
        self.states[name].append(state)
        if name == "killed" and state == "TASK_RUNNING":
            driver.kill(name, status["agent_id"]["value"])
        if all(found[-1:] in (["TASK_FINISHED"], ["TASK_KILLED"]) for found in self.states.values()):
            self.done.set()

    def __getattr__(self, name):
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *words: self.heard.append(name)


scheduler = Scheduler()
gpus = [{"type": "GPU_RESOURCES"}]
driver = SchedulerDriver(scheduler, "mentos", "root", master=sys.argv[1], failover_timeout=0, capabilities=gpus)
driver.start()
ended = scheduler.done.wait(60)
print(json.dumps({"ended": ended, "states": scheduler.states, "heard": sorted(set(scheduler.heard))}), flush=True)
os._exit(0)  # its loop does not end by itself
