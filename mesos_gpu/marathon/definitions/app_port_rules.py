"""Marathon's second stage, continued: networks, ports, volumes, fetches and checks of an app in canonical form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.app_forms import port_count, uri_problems
from mesos_gpu.marathon.definitions.app_rules import App, Rule, volumes, wrong
from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.marathon.definitions.external_rules import external_problems
from mesos_gpu.marathon.definitions.persistent_volumes import disk_problems


def _networks(app: App, rules: AppRules) -> Iterator[Problem]:
    networks = app["networks"]
    modes = [network["mode"] for network in networks]
    if len(set(modes)) > 1 or (len(modes) > 1 and modes[0] != "container"):
        yield wrong("/networks", "there may be one host network, or one bridge, or several container networks")
    for index, network in enumerate(networks):
        path = f"/networks({index})"
        if network["mode"] != "container" and "name" in network:
            yield wrong(f"{path}/name", f"a {network['mode']} network has no name", "remove it")
        if network["mode"] == "host" and network.get("labels"):
            yield wrong(f"{path}/labels", "the host network has no labels", "remove them")
        if network["mode"] == "container" and "name" not in network and rules.known:
            yield wrong(
                path, "a container network needs a name", "add `name`, or start Marathon with --default_network_name"
            )
    names = [network["name"] for network in networks if "name" in network]
    if _twice(names):
        yield wrong("/networks", f"the network {_twice(names)[0]} is named twice")
    if app.get("container", {}).get("type") == "DOCKER" and modes.count("container") > 1:
        yield wrong("/networks", "the Docker containerizer knows one container network at most")


def _ports(app: App, rules: AppRules) -> Iterator[Problem]:
    host = app["networks"][0]["mode"] == "host"
    definitions = app.get("portDefinitions", [])
    mappings = app.get("container", {}).get("portMappings", [])
    if definitions and not host:
        yield wrong(
            "/portDefinitions", "portDefinitions only work with host networking", "use `container.portMappings`"
        )
    if mappings and host:
        sentence = "portMappings do not work with host networking"
        yield wrong(
            "/container/portMappings", sentence, 'use `portDefinitions`, or a network of mode "container/bridge"'
        )
    if _twice(definition["port"] for definition in definitions if definition["port"] != 0):
        yield wrong("/portDefinitions", "a port is wanted twice", "list each port once, or use 0 for any")
    for path, items in (("/portDefinitions", definitions), ("/container/portMappings", mappings)):
        if twice := _twice(item["name"] for item in items if "name" in item):
            yield wrong(path, f"two ports are named {twice[0]!r}", "give each port its own name")
    names = [network.get("name") for network in app["networks"] if network["mode"] == "container"]
    for index, mapping in enumerate(mappings):
        path, wanted = f"/container/portMappings({index})", mapping.get("networkNames", [])
        if len(names) > 1 and "hostPort" in mapping and len(wanted) != 1:
            yield wrong(
                path,
                "with several networks a hostPort must say which one it is for",
                "add `networkNames` with one name",
            )
        for name in wanted:
            if name not in names:
                yield wrong(f"{path}/networkNames", f"the app has no network {name!r}", "use a name from `networks`")


def _volumes(app: App, rules: AppRules) -> Iterator[Problem]:
    external = [volume["external"].get("name") for volume in volumes(app) if "external" in volume]
    if _twice(name for name in external if name):
        yield wrong("/container/volumes", "two external volumes have the same name")
    for index, volume in enumerate(volumes(app)):
        path, place = f"/container/volumes({index})", volume["containerPath"]
        if not {"hostPath", "persistent", "external", "secret"} & volume.keys():
            yield wrong(path, "a volume needs hostPath, persistent, external or secret", "add `hostPath`")
        if "persistent" not in volume:
            continue
        if place in (".", "..") or "/" in place:
            sentence = "a persistent volume is mounted at a plain name in the sandbox, without slashes"
            yield wrong(f"{path}/containerPath", sentence)
        if volume.get("mode", "RW") != "RW":
            yield wrong(f"{path}/mode", "a persistent volume must be writable", "write RW")
        yield from disk_problems(f"{path}/persistent", volume["persistent"])


def _fetch(app: App, rules: AppRules) -> Iterator[Problem]:
    for index, item in enumerate(app["fetch"]):
        yield from uri_problems(f"/fetch({index})/uri", item["uri"])


def _health(app: App, rules: AppRules) -> Iterator[Problem]:
    ports, checks = port_count(app), app["healthChecks"]
    for index, check in enumerate(checks):
        path, protocol = f"/healthChecks({index})", check["protocol"]
        if protocol == "COMMAND":
            if "command" not in check:
                yield wrong(f"{path}/command", "a COMMAND check needs a command", "add `command`")
        elif "port" not in check and check.get("portIndex", ports) >= ports:
            sentence = (
                f"portIndex {check['portIndex']} is not one of the app's ports"
                if "portIndex" in check
                else "no port to check"
            )
            yield wrong(path, f"{sentence}; it has {ports}", "add a port, or name one that is there")
        docker = app.get("container", {}).get("type") == "DOCKER" and protocol.startswith("MESOS_")
        if check["ipProtocol"] == "IPv6" and not docker:
            yield wrong(f"{path}/ipProtocol", "IPv6 only works with the Docker containerizer and MESOS_ checks")
    if sum(check["protocol"].startswith("MESOS_") for check in checks) > 1:
        yield wrong("/healthChecks", "there may be one check of a MESOS_ kind at most")


def _general_check(app: App, rules: AppRules) -> Iterator[Problem]:
    check = app.get("check")
    if check is None:
        return
    if app.get("container", {}).get("type") == "DOCKER":
        yield wrong("/check", "checks do not work with the Docker containerizer", "use `healthChecks`")
    for kind in ("http", "tcp"):
        if check.get(kind, {}).get("portIndex", -1) >= port_count(app):
            yield wrong(f"/check/{kind}/portIndex", f"not one of the app's {port_count(app)} ports")


def _readiness(app: App, rules: AppRules) -> Iterator[Problem]:
    items = app.get("container", {}).get("portMappings") or app.get("portDefinitions", [])
    names = {item["name"] for item in items if "name" in item}
    for index, check in enumerate(app["readinessChecks"]):
        path = f"/readinessChecks({index})"
        if not 0 < check["timeoutSeconds"] < check["intervalSeconds"]:
            yield wrong(f"{path}/timeoutSeconds", "must be above 0 and below intervalSeconds")
        if check["portName"] not in names:
            yield wrong(f"{path}/portName", f"the app has no port named {check['portName']!r}", "give a port that name")


def _twice(values: Iterable[str | int]) -> list[str | int]:
    return [value for value, count in Counter(values).items() if count > 1]


PORT_RULES: tuple[Rule, ...] = (
    _networks,
    _ports,
    _volumes,
    external_problems,
    _fetch,
    _health,
    _general_check,
    _readiness,
)
