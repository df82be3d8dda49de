"""Apps in a network of their own on a box: bridge mode as in Marathon's documents, with nothing set up by hand."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
import requests

from mesos_gpu.local.bridge import bridge_name, subnet_of
from mesos_gpu.local.plan import box_id
from tests.support.box.live import LiveBox
from tests.support.container.cni_networks import run
from tests.support.places import EXAMPLES

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

SERVE = "echo $PORT0 > index.html; exec python3 -m http.server 80"


def web(name: str, **check: Any) -> dict[str, Any]:
    """Return an app that listens on port 80 of its own, and is healthy when Marathon, or the agent, reaches it."""
    return {
        "id": name,
        "cmd": SERVE,
        "cpus": 0.1,
        "mem": 64,
        "networks": [{"mode": "container/bridge"}],
        "container": {"type": "MESOS", "portMappings": [{"containerPort": 80, "hostPort": 0, "name": "http"}]},
        "healthChecks": [{"portIndex": 0, "path": "/", "gracePeriodSeconds": 60, "intervalSeconds": 1, **check}],
    }


def test_two_apps_with_the_same_port_answer_on_ports_of_the_host_until_the_box_is_down(own_box: LiveBox) -> None:
    box = own_box
    nameless = {"id": "named", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "networks": [{"mode": "container"}]}
    apps = [web("by-marathon", protocol="HTTP"), web("by-agent", protocol="MESOS_HTTP", delaySeconds=0), nameless]
    apps.append(json.loads((EXAMPLES / "bridge-web.json").read_bytes()))
    url = box.status()["marathon"]["url"]
    for app in apps:
        requests.post(f"{url}/v2/apps", json=app, timeout=60).raise_for_status()

    def shown() -> dict[str, Any]:
        listed = requests.get(f"{url}/v2/apps?embed=apps.tasks", timeout=60).json()["apps"]
        return {app["id"]: app for app in listed}

    def well() -> bool:
        found = shown()
        healthy = all(found[f"/{name}"]["tasksHealthy"] == 1 for name in ("by-marathon", "by-agent"))
        return healthy and found["/named"]["tasksRunning"] == 1 and found["/web"]["tasksRunning"] == 2

    box.until("both are healthy", well)
    found = shown()
    assert found["/named"]["tasks"][0]["ipAddresses"], "a network that is not named is the box's"
    tasks = [found[f"/{name}"]["tasks"][0] for name in ("by-marathon", "by-agent")]
    ports = [task["ports"][0] for task in tasks]
    addresses = [task["ipAddresses"][0]["ipAddress"] for task in tasks]
    document = json.loads((box.work_dir / "networks" / "mesos-bridge.conflist").read_bytes())
    subnet = subnet_of(document)
    assert subnet is not None
    assert all(address.startswith(str(subnet.network_address).rpartition(".")[0]) for address in addresses)
    assert len(set(addresses)) == 2

    def said() -> list[int]:
        return [int(requests.get(f"http://127.0.0.1:{port}/", timeout=60).text) for port in ports]

    assert said() == ports, "each answers on its own"
    own = {task["ports"][0] for task in found["/web"]["tasks"]}
    assert len(own - set(ports)) == 2
    box.until("the example answers", lambda: all(listens(port) for port in own))

    agent = box.status()["agents"][0]["pid"]
    os.kill(agent, signal.SIGKILL)
    assert said() == ports
    box.until("the agent is back", lambda: (box.status()["agents"][0]["pid"] or agent) != agent)
    requests.delete(f"{url}/v2/apps/by-agent", timeout=60).raise_for_status()
    box.until("its port is closed", lambda: not listens(ports[1]))

    bridge = bridge_name(box_id(box.work_dir))
    assert bridge in run("ip", "-o", "link", "show")
    box.ok("down")
    assert bridge not in run("ip", "-o", "link", "show")
    prefix = str(subnet.network_address).rpartition(".")[0]
    assert f"{prefix}." not in run("iptables", "-w", "-t", "nat", "-S")


def listens(port: int) -> bool:
    try:
        requests.get(f"http://127.0.0.1:{port}/", timeout=60)
    except requests.ConnectionError:
        return False
    return True
