"""Older ways to write an app, and what each means today.

Input may use `ports`, `uris`, `ipAddress`, `container.docker.network` and `container.docker.portMappings`; the
canonical form never does. Source: Marathon AppNormalization (deprecated fields) and its validators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.app_settings import AppRules

App = dict[str, Any]

HOST = {"mode": "host"}
BRIDGE = {"mode": "container/bridge"}
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")


def form_problems(app: Mapping[str, Any]) -> list[Problem]:
    """Return what makes older and present forms in a clean, well-shaped `app` contradict each other."""
    return [*_network_problems(app), *_port_problems(app), *_fetch_problems(app)]


def modernise(app: App, rules: AppRules) -> None:
    """Rewrite every older form in a clean `app`, name its networks, and put its ports where they belong."""
    container, networks = _container(app), _networks(app, rules)
    leftovers = container is not None and _host_mappings_are_leftovers(app)
    ports, uris = app.pop("ports", None), app.pop("uris", None)
    app.pop("ipAddress", None)
    app["networks"] = networks
    if networks[0]["mode"] == "host":
        if "portDefinitions" not in app:
            app["portDefinitions"] = [{"port": 0, "name": "default"}] if ports is None else [{"port": p} for p in ports]
        if container is not None and leftovers:
            container.pop("portMappings", None)
    else:
        if not app.get("portDefinitions"):
            app.pop("portDefinitions", None)
        app["requirePorts"] = False
        if container is not None:
            container["portMappings"] = _mappings(container.get("portMappings"), len(ports or ()), networks)
    if container is not None:
        app["container"] = container
    if uris:
        app["fetch"] = [{"uri": uri, "extract": urlsplit(uri).path.endswith(_ARCHIVES)} for uri in uris]


def port_count(app: Mapping[str, Any]) -> int:
    """Return how many ports a modernised app has: its mappings, else its definitions."""
    mappings = app.get("container", {}).get("portMappings")
    return len(mappings or app.get("portDefinitions", []))


def _docker(app: Mapping[str, Any]) -> Mapping[str, Any]:
    docker: Mapping[str, Any] = app.get("container", {}).get("docker", {})
    return docker


def _container(app: Mapping[str, Any]) -> App | None:
    address = app.get("ipAddress")
    if "container" not in app and address is None:
        return None
    container = dict(app.get("container", {"type": "MESOS"}))
    if "docker" in container:
        old = container["docker"]
        container["docker"] = {key: value for key, value in old.items() if key not in ("network", "portMappings")}
        if not container.get("portMappings") and old.get("portMappings"):
            container["portMappings"] = old["portMappings"]
    discovered = (address or {}).get("discovery", {}).get("ports")
    if discovered:
        container["portMappings"] = [
            {
                "containerPort": port.get("number", 0),
                **{key: port[key] for key in ("name", "protocol", "labels") if key in port},
            }
            for port in discovered
        ]
    return container


def _networks(app: Mapping[str, Any], rules: AppRules) -> list[App]:
    address = app.get("ipAddress")
    named = {
        key: value
        for key, value in (("name", (address or {}).get("networkName")), ("labels", (address or {}).get("labels")))
        if value
    }
    old = _docker(app).get("network")
    if old == "HOST":
        networks = [HOST]
    elif old == "BRIDGE" or (address is not None and named.get("name") == rules.bridge_name):
        networks = [BRIDGE]
    elif old == "USER" or address is not None:
        networks = [{"mode": "container", **named}]
    else:
        networks = app.get("networks") or [HOST]
    return [_named({"mode": "container", **network}, rules) for network in networks]


def _named(network: App, rules: AppRules) -> App:
    if network["mode"] == "container" and "name" not in network and rules.default_network_name is not None:
        return {**network, "name": rules.default_network_name}
    return network


def _host_mappings_are_leftovers(app: Mapping[str, Any]) -> bool:
    """Mappings beside `networks: [host]` are a contradiction; with older forms, and empty ones, nothing is lost."""
    return not app.get("networks") or not app.get("container", {}).get("portMappings")


def _mappings(given: list[App] | None, wanted: int, networks: list[App]) -> list[App]:
    mappings = [{"containerPort": 0, "name": "default"}] if given is None and wanted == 0 else list(given or [])
    mappings += [{"containerPort": 0}] * (wanted - len(mappings))
    if networks[0]["mode"] == "container/bridge":
        return [{"hostPort": 0, **mapping} for mapping in mappings]
    return mappings


def _network_problems(app: Mapping[str, Any]) -> Iterator[Problem]:
    old, address = _docker(app).get("network"), app.get("ipAddress")
    if old == "NONE":
        sentence = "network type NONE is not supported"
        yield Problem(
            "/container/docker/network", sentence, sentence, "use `networks`, or leave it out for host networking"
        )
    if old is not None and app.get("networks"):
        sentence = "may not be used together with `networks`"
        yield Problem("/container/docker/network", sentence, f"`network` {sentence}", "keep only `networks`")
    if address is not None and app.get("networks"):
        sentence = "ipAddress and networks may not be used together"
        yield Problem("/", sentence, sentence, "keep only `networks`", key="ipAddress")
    if address is None:
        return
    if app.get("ports") or app.get("portDefinitions"):
        sentence = "ipAddress may not be used together with ports or portDefinitions"
        yield Problem("/", sentence, sentence, "use `networks` and `container.portMappings`", key="ipAddress")
    if address.get("discovery", {}).get("ports"):
        container = app.get("container", {"type": "MESOS"})
        if container.get("type", "DOCKER") == "DOCKER":
            sentence = "discovery ports do not work with the Docker containerizer"
            yield Problem("/ipAddress/discovery/ports", sentence, sentence, "use `container.portMappings`")
        elif container.get("portMappings") or _docker(app).get("portMappings"):
            sentence = "may not be used together with port mappings"
            yield Problem(
                "/ipAddress/discovery/ports", sentence, f"`ports` {sentence}", "keep only `container.portMappings`"
            )


def _port_problems(app: Mapping[str, Any]) -> Iterator[Problem]:
    fixed = [port for port in app.get("ports", []) if port != 0]
    if len(fixed) != len(set(fixed)):
        yield Problem(
            "/ports", "Elements must be unique", "a port is listed twice", "list each port once, or use 0 for any"
        )
    definitions = [definition.get("port", 0) for definition in app.get("portDefinitions", [])]
    if app.get("ports") and definitions and definitions != app["ports"]:
        sentence = "ports and portDefinitions say different things"
        yield Problem("/", sentence, sentence, "keep only `portDefinitions`", key="ports")
    if _docker(app).get("portMappings") and app["container"].get("portMappings"):
        sentence = "container.portMappings and container.docker.portMappings may not be used together"
        yield Problem("/container/docker/portMappings", sentence, sentence, "keep only `container.portMappings`")


def _fetch_problems(app: Mapping[str, Any]) -> Iterator[Problem]:
    if app.get("uris") and app.get("fetch"):
        sentence = "uris and fetch may not be used together"
        yield Problem("/uris", sentence, sentence, "keep only `fetch`")
    for index, uri in enumerate(app.get("uris", [])):
        yield from uri_problems(f"/uris({index})", uri)


def uri_problems(path: str, uri: str) -> Iterator[Problem]:
    """Yield a problem when `uri` is not the text of a URI (java.net.URI refuses blanks and some signs)."""
    try:
        urlsplit(uri)
        fine = bool(uri) and not any(char in ' "<>\\^`{|}' or ord(char) < 32 for char in uri)
    except ValueError:
        fine = False
    if not fine:
        yield Problem(
            path, "URI has invalid syntax", f"{uri!r} is not a URI", "write blanks and special signs as %20 and so on"
        )
