"""Container networks as CNI plugins are told of them, and what they answer. Pure.

Sources: the CNI specification (0.1.0 to 1.0.0: network configuration, runtime parameters, results) and Mesos
src/slave/containerizer/mesos/isolators/network/cni (cni.cpp, spec.cpp, plugins/port_mapper), docs/cni.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_interface
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.errors import BadInput, ProtocolError
from mesos_gpu.mesos.ids import ContainerId

Document: TypeAlias = dict[str, Any]

ADD, DEL = "ADD", "DEL"
RESERVED = "org.apache.mesos"
"""The key of a configuration's `args` under which plugins find the NetworkInfo."""

PORT_MAPPER = "mesos-cni-port-mapper"
"""Mesos' own plugin: it has another one join the network, and maps the ports itself."""

PORTMAP = "portmap"
MAPS_PORTS = "portMappings"
ADDRESSES = "ips"
LEAST_OF_CHAINS = (0, 3, 1)
"""Since this version a plugin is told what the one before it answered."""

LEAST_OF_DEL = (0, 4, 0)
"""Since this version DEL is told what ADD answered."""


class Network(Struct, frozen=True):
    """One network that containers may join: the plugins that do it, in order. `version` "" is the oldest."""

    name: str
    version: str
    plugins: tuple[Document, ...]

    def programs(self) -> tuple[str, ...]:
        """Return the plugins that are needed, those for addresses among them."""
        found = []
        for plugin in self.plugins:
            found.append(str(plugin["type"]))
            ipam = plugin.get("ipam")
            if isinstance(ipam, dict) and isinstance(ipam.get("type"), str):
                found.append(ipam["type"])
        return tuple(dict.fromkeys(found))


class Answer(Struct, frozen=True):
    """What the last plugin of a network said: a container's addresses without prefix lengths, and its DNS."""

    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()
    domain: str | None = None
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


DefaultDns: TypeAlias = Mapping[str, Answer]
"""What a network's containers ask for names when its plugins do not say: by the network's name, "" for all others."""

NO_DNS: DefaultDns = MappingProxyType({})


def read_network(text: str | bytes, has: Callable[[str], bool]) -> Network:
    """Return the network that a configuration, or a list of them (`plugins`), describes; `has` knows which plugins are.

    Where Mesos' port mapper is not installed, its configuration means the plugin that it delegates to, and then
    `portmap`. Raises BadInput with what is wrong.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadInput(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadInput("not a JSON object")
    name, version = document.get("name"), document.get("cniVersion", "")
    if not isinstance(name, str) or not name or "/" in name:
        raise BadInput("'name' must say the network's name")
    if not isinstance(version, str):
        raise BadInput("'cniVersion' must be text")
    if "plugins" in document:
        plugins = document["plugins"]
        if not isinstance(plugins, list) or not plugins:
            raise BadInput("'plugins' must be a list of configurations")
        return Network(name, version or ".".join(map(str, LEAST_OF_CHAINS)), tuple(map(_plugin, plugins)))
    plugin = _plugin(document)
    if plugin["type"] == PORT_MAPPER and not has(PORT_MAPPER):
        return _port_mapped(name, version, plugin)
    return Network(name, version, (plugin,))


def _plugin(document: Any) -> Document:
    if not isinstance(document, dict) or not isinstance(document.get("type"), str) or not document["type"]:
        raise BadInput("'type' must say which plugin it is for")
    if "/" in document["type"]:
        raise BadInput(f"the plugin {document['type']!r} must be a name without a path")
    args = document.get("args", {})
    if not isinstance(args, dict) or RESERVED in args:
        raise BadInput(f"'{RESERVED}' in 'args' is reserved by Mesos")
    return dict(document)


def _port_mapped(name: str, version: str, mapper: Document) -> Network:
    if "delegate" not in mapper:
        raise BadInput(f"{PORT_MAPPER} needs a 'delegate', the plugin that joins the network")
    delegate = _plugin(mapper["delegate"])
    version = version or str(delegate.get("cniVersion", ""))
    if _number(version) < LEAST_OF_CHAINS:
        version = ".".join(map(str, LEAST_OF_CHAINS))
    portmap: Document = {"type": PORTMAP, "capabilities": {MAPS_PORTS: True}, "snat": True}
    devices = mapper.get("excludeDevices") or []
    if devices:  # the last alone counts, as for Mesos
        portmap["conditionsV4"] = ["!", "-i", str(devices[-1])]
    args = {"args": mapper["args"]} if "args" in mapper else {}
    return Network(name, version, ({**delegate, **args}, portmap))


def plugin_input(
    network: Network, index: int, info: Mapping[str, Any], before: Mapping[str, Any] | None, command: str
) -> Document:
    """Return what plugin number `index` of a network reads on stdin, for a container with this NetworkInfo.

    `before` is what the plugin before it answered; for DEL, the answer to the whole ADD.
    """
    plugin = network.plugins[index]
    document: Document = {key: value for key, value in plugin.items() if key != "capabilities"}
    document["name"] = network.name
    if network.version:
        document["cniVersion"] = network.version
    document["args"] = {**plugin.get("args", {}), RESERVED: {"network_info": dict(info)}}
    wanted = {MAPS_PORTS: port_mappings(info), ADDRESSES: addresses_asked(info)}
    capabilities = plugin.get("capabilities") or {}
    given = {name: value for name, value in wanted.items() if value and capabilities.get(name)}
    if given:
        document["runtimeConfig"] = {**plugin.get("runtimeConfig", {}), **given}
    least = LEAST_OF_CHAINS if command == ADD else LEAST_OF_DEL
    if before is not None and _number(network.version) >= least:
        document["prevResult"] = dict(before)
    return document


def port_mappings(info: Mapping[str, Any]) -> list[Document]:
    """Return the port mappings of a NetworkInfo as the CNI convention of that name has them."""
    return [
        {
            "hostPort": int(mapping["host_port"]),
            "containerPort": int(mapping["container_port"]),
            "protocol": str(mapping.get("protocol") or "tcp").lower(),
        }
        for mapping in info.get("port_mappings", ())
    ]


def addresses_asked(info: Mapping[str, Any]) -> list[str]:
    """Return the addresses that a NetworkInfo asks for by name, as the CNI convention `ips` has them."""
    asked = (address.get("ip_address") for address in info.get("ip_addresses", ()))
    return [str(address) for address in asked if address]


def plugin_environment(
    command: str, container_id: ContainerId, netns: str, interface: str, path: str
) -> dict[str, str]:
    """Return the variables by which a plugin is told what to do."""
    return {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": container_id,
        "CNI_NETNS": netns,
        "CNI_IFNAME": interface,
        "CNI_PATH": path,
    }


def read_answer(document: Mapping[str, Any]) -> Answer:
    """Return what a plugin's result says, of whatever version. Raises ProtocolError."""
    try:
        found = [ip["address"] for ip in document.get("ips") or ()]
        found += [document[key]["ip"] for key in ("ip4", "ip6") if document.get(key)]
        addresses = [ip_interface(str(text)).ip for text in found]
        dns = document.get("dns") or {}
        return Answer(
            ipv4=tuple(str(ip) for ip in addresses if isinstance(ip, IPv4Address)),
            ipv6=tuple(str(ip) for ip in addresses if isinstance(ip, IPv6Address)),
            nameservers=tuple(map(str, dns.get("nameservers") or ())),
            domain=dns.get("domain") or None,
            search=tuple(map(str, dns.get("search") or ())),
            options=tuple(map(str, dns.get("options") or ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"{type(error).__name__}: {error}") from None


def read_default_dns(text: str | bytes) -> DefaultDns:
    """Return what --default_container_dns says of Mesos' containers; what it says of Docker's concerns none here.

    Raises BadInput. Source: Mesos docs/configuration/agent.md.
    """
    try:
        entries = json.loads(text).get("mesos") or []
        found: dict[str, Answer] = {}
        for entry in entries:
            if entry.get("network_mode", "CNI") != "CNI":
                raise BadInput(f"the network_mode {entry['network_mode']!r} is not CNI")
            name, dns = str(entry.get("network_name") or ""), read_answer({"dns": entry["dns"]})
            if name in found:
                raise BadInput(f"the network {name!r} is there twice" if name else "two entries are for all networks")
            found[name] = dns
    except (ValueError, KeyError, TypeError, AttributeError, ProtocolError) as error:
        raise BadInput(f"no JSON of that kind: {type(error).__name__}: {error}") from None
    return found


def with_default(name: str, answer: Answer, defaults: DefaultDns) -> Answer:
    """Return the answer of a network; its DNS is the default one where the network names no nameserver."""
    default = defaults.get(name, defaults.get(""))
    if answer.nameservers or default is None:
        return answer
    return replace(default, ipv4=answer.ipv4, ipv6=answer.ipv6)


def error_words(output: str) -> str | None:
    """Return what a plugin says of its failure, None when it does not say it as plugins do."""
    try:
        said = json.loads(output)
        words = [str(said[key]) for key in ("msg", "details") if said.get(key)]
    except (ValueError, TypeError, AttributeError):
        return None
    return ": ".join(words) or None


def shown(info: Mapping[str, Any], answer: Answer) -> Document:
    """Return the NetworkInfo of a container's status: the one asked for, with the addresses that it got."""
    addresses = [{"protocol": "IPv4", "ip_address": ip} for ip in answer.ipv4]
    addresses += [{"protocol": "IPv6", "ip_address": ip} for ip in answer.ipv6]
    return {**{key: value for key, value in info.items() if key != "ip_addresses"}, "ip_addresses": addresses}


def hosts_text(hostname: str, answers: Sequence[Answer], otherwise: str = "") -> str:
    """Return the container's /etc/hosts: itself by its first address.

    One that has no network of its own gets the host's (`otherwise`), and in it itself as Debian writes it.
    """
    first = next((ip for answer in answers for ip in (*answer.ipv4, *answer.ipv6)), None)
    if not answers:
        return f"{otherwise.rstrip()}\n127.0.1.1 {hostname}\n".lstrip()
    return "127.0.0.1 localhost\n" + (f"{first} {hostname}\n" if first is not None else "")


def resolver_text(answers: Sequence[Answer]) -> str | None:
    """Return the container's /etc/resolv.conf, of all networks' nameservers; None when they name none."""
    nameservers = list(dict.fromkeys(server for answer in answers for server in answer.nameservers))
    if not nameservers:
        return None
    lines = [f"domain {answer.domain}" for answer in answers if answer.domain is not None][-1:]
    for word, lists in (("search", [a.search for a in answers]), ("options", [a.options for a in answers])):
        entries = list(dict.fromkeys(entry for one in lists for entry in one))
        if entries:
            lines.append(f"{word} {' '.join(entries)}")
    return "\n".join([*lines, *(f"nameserver {server}" for server in nameservers), ""])


def names_of(infos: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the networks that are asked for by name. Raises BadInput for one that is asked for twice."""
    names = [str(info["name"]) for info in infos]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"Attempted to join CNI network '{twice}' multiple times")
    return names


def _number(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in parts) if version else (0, 1, 0)
