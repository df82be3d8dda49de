"""pymesos' operator drivers: every reading call of master and agent, changes that can be taken back, and the events.

Words: the master's host:port, the agent's. Prints what was answered, and which events came, as JSON.
"""

import json
import sys
import threading

from pymesos import MesosOperatorAgentDriver, MesosOperatorMasterDriver, OperatorMaster

master_address, agent_address = sys.argv[1:]
seen, subscribed, ended = [], threading.Event(), threading.Event()


class Watcher(OperatorMaster):
    def taskAdded(self, task):
        seen.append("TASK_ADDED")

    def taskUpdated(self, update):
        seen.append(f"TASK_UPDATED {update['state']}")

    def frameworkAdded(self, framework):
        seen.append("FRAMEWORK_ADDED")

    def frameworkRemoved(self, framework):
        seen.append("FRAMEWORK_REMOVED")
        ended.set()


class Driver(MesosOperatorMasterDriver):
    def on_subscribed(self, info):
        super().on_subscribed(info)
        subscribed.set()


driver = Driver(master_address, Watcher())
driver.start()
told = {"subscribed": subscribed.wait(60)}
READ = ("Health", "Flags", "Version", "LoggingLevel", "State", "Frameworks", "Executors", "Tasks")
OF_MASTER = ("Agents", "Roles", "Weights", "Master", "MaintenanceStatus", "MaintenanceSchedule", "Quota")
told["master"] = {name: sorted(getattr(driver, "get" + name)()) for name in READ + OF_MASTER}
told["metrics"] = len(driver.getMetrics(5_000_000_000)["get_metrics"]["metrics"])

agent = MesosOperatorAgentDriver(agent_address)
told["agent"] = {name: sorted(getattr(agent, "get" + name)()) for name in (*READ, "Containers")}
container = {"parent": {"value": sys.stdin.readline().strip()}, "value": "by-pymesos"}
agent.launchNestedContainer({"container_id": container, "command": {"value": "sleep 1000"}})
told["nested"] = len(agent.getContainers(show_nested=True)["get_containers"]["containers"])
agent.killNestedContainer("by-pymesos", container["parent"]["value"])
agent.waitNestedContainer("by-pymesos", container["parent"]["value"])
agent.removeNestedContainer("by-pymesos", container["parent"]["value"])

driver.updateWeights([{"role": "ml", "weight": 2.0}])
told["weights"] = driver.getWeights()["get_weights"]["weight_infos"]
driver.setQuota({"role": "ml", "guarantee": [{"name": "gpus", "type": "SCALAR", "scalar": {"value": 1}}]})
told["quota"] = [info["role"] for info in driver.getQuota()["get_quota"]["status"]["infos"]]
driver.removeQuota("ml")
machine = {"hostname": "elsewhere", "ip": "192.0.2.1"}
driver.updateMaintenanceSchedule([{"machine_ids": [machine], "unavailability": {"start": {"nanoseconds": 1}}}])
driver.startMaintenance([machine])
told["down"] = driver.getMaintenanceStatus()["get_maintenance_status"]["status"]["down_machines"]
driver.stopMaintenance([machine])
print(json.dumps(told), flush=True)
ended.wait(60)
print(json.dumps(seen), flush=True)
driver.stop()
