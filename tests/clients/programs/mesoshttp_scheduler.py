"""mesoshttp, or its fork avmesos: subscribe, run a task with a GPU, reconcile it, kill another, tear down.

Prints what it saw as JSON.

It reads an event when the next one begins, which may be a heartbeat 15 s later; so the program makes events: answers
about a task that is none.
"""

import importlib
import json
import sys
import threading
import time

url, library = sys.argv[1:]
MesosClient = importlib.import_module(f"{library}.client").MesosClient
seen = {"updates": [], "offers": [], "errors": []}
client = MesosClient(mesos_urls=[url], frameworkName=library, frameworkUser="root")
client.set_checkpoint(True)
client.add_capability("GPU_RESOURCES")
done = threading.Event()
state = {"driver": None, "launched": False}


def subscribed(driver):
    state["driver"] = driver
    seen["framework_id"] = driver.frameworkId


def scalar(name, value):
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}}


def task(offer, name, command):
    return {
        "name": name,
        "task_id": {"value": name},
        "agent_id": {"value": offer["agent_id"]["value"]},
        "resources": [scalar("cpus", 0.1), scalar("mem", 32), scalar("gpus", 1)],
        "command": {"value": command},
    }


def offers(batch):
    for offer in batch:
        told = offer.get_offer()
        names = sorted(r["name"] for r in told["resources"])
        seen["offers"].append(names)
        if state["launched"] or "gpus" not in names:
            offer.decline()
            continue
        state["launched"] = True
        state["agent"] = told["agent_id"]["value"]
        tasks = [task(told, "lists", "nvidia-smi -L"), task(told, "sleeps", "sleep 1000")]
        offer.accept(tasks)


def update(event):
    status = event["status"]
    if status["task_id"]["value"] == "nobody":
        return
    seen["updates"].append([status["task_id"]["value"], status["state"], status.get("reason")])
    last = dict((name, what) for name, what, _ in seen["updates"])
    if status.get("reason") == "REASON_RECONCILIATION":
        state["driver"].kill(state["agent"], "sleeps")
    elif last == {"lists": "TASK_FINISHED", "sleeps": "TASK_RUNNING"} and "asked" not in state:
        state["asked"] = True
        state["driver"].reconcile([{"task_id": {"value": "sleeps"}, "agent_id": {"value": state["agent"]}}])
    if status["state"] == "TASK_KILLED":
        done.set()


client.on(MesosClient.SUBSCRIBED, subscribed)
client.on(MesosClient.OFFERS, offers)
client.on(MesosClient.UPDATE, update)
client.on(MesosClient.ERROR, lambda error: seen["errors"].append(error))
thread = threading.Thread(target=client.register, daemon=True)
thread.start()
end = time.monotonic() + 60
while not done.wait(0.2) and time.monotonic() < end:
    if state["driver"]:
        state["driver"].reconcile([{"task_id": {"value": "nobody"}}])
seen["ended"] = done.is_set()
seen["master"] = sorted(client.get_master_info() or {})
client.stop = True
if state["driver"]:
    state["driver"].tearDown()
print(json.dumps(seen))
