"""Where the master is: what `--master` and `--zk` may say, and which node of a ZooKeeper group leads. Pure.

Every master that runs has an ephemeral, sequential node below the group's path; the lowest sequence number leads,
whatever the label before it. Source: Mesos src/master/{detector,contender}/zookeeper.cpp, src/zookeeper/group.cpp,
include/mesos/zookeeper/url.hpp.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Struct

from mesos_gpu.errors import BadFlag, ProtocolError
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.messages import decode
from mesos_gpu.mesos.resource import Document

MASTER_ID = "master"
DEFAULT_MASTER_PORT = 5050
LABEL = "json.info"
"""What the nodes of masters since 0.24 are called; their content is MasterInfo as JSON."""
BINARY_LABEL = "info"
"""What they were called before; MasterInfo as protobuf. Before 0.20 they had no label, and held the bare pid."""
SCHEME = "zk://"
SESSION_TIMEOUT_S = 10.0
"""Mesos' `--zk_session_timeout`: how long a master that vanished is still taken for the leader."""

_NODE = re.compile(r"^(?:(?P<label>.+)_)?(?P<sequence>\d{10})$")


@dataclass(frozen=True, slots=True)
class ZkUrl:
    """`zk://[user:password@]host1:port1,host2:port2/path`."""

    hosts: str
    path: str
    credentials: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{SCHEME}{self.hosts}{self.path}"


class HostPort(Struct, frozen=True):
    """A master by name or address, not resolved yet."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Leader(Struct, frozen=True):
    """The leading master, as it calls itself. `info` is its MasterInfo, with what its form of node has of it."""

    pid: Pid
    info: Document

    @property
    def hostname(self) -> str:
        """Return the name that URLs of it are made of."""
        return str(self.info.get("hostname") or self.pid.ip)


def parse_zk_url(flag: str, text: str) -> ZkUrl:
    """Read a `zk://` URL. Raises BadFlag about `flag`; never shows the password that the text may hold."""
    rest = text.removeprefix(SCHEME)
    servers, slash, path = rest.partition("/")
    credentials, at, hosts = servers.rpartition("@")
    if "@" not in path and (not slash or not path.strip("/")):
        raise BadFlag(flag, f"{SCHEME}{hosts} names no path; it goes {SCHEME}host1:2181,host2:2181/mesos")
    if at and ":" not in credentials:
        raise BadFlag(flag, f"before the @ stands user:password, in {SCHEME}user:password@host:2181/mesos")
    if "@" in path:
        raise BadFlag(
            flag, f"a password with a / ends the list of hosts; it goes {SCHEME}user:password@host:2181/mesos"
        )
    names = hosts.split(",")
    if not all(re.fullmatch(r"[^\s:]+(:\d{1,5})?", name) for name in names):
        raise BadFlag(flag, f"'{hosts}' is not a list of host:port")
    return ZkUrl(hosts, "/" + path.strip("/"), credentials if at else None)


def parse_master(flag: str, text: str | None) -> ZkUrl | tuple[HostPort, ...]:
    """Read what says where the master is: `host:port`, `master@host:port`, several with commas, or `zk://...`.

    Raises BadFlag about `flag`. A `file://` value was read when the flags were.
    """
    if not text:
        raise BadFlag(flag, "is needed: where the master listens, for example 127.0.0.1:5050")
    if text.startswith(SCHEME):
        return parse_zk_url(flag, text)
    return tuple(_host_port(flag, part.strip()) for part in text.split(","))


def _host_port(flag: str, text: str) -> HostPort:
    host, _, port = text.removeprefix(f"{MASTER_ID}@").partition(":")
    if not host or "/" in host or (port and not port.isdigit()) or int(port or DEFAULT_MASTER_PORT) > 65535:
        raise BadFlag(flag, f"'{text}' is not host:port, and not {SCHEME}host1:port1,host2:port2/path either")
    return HostPort(host, int(port or DEFAULT_MASTER_PORT))


def leading(children: Iterable[str]) -> str | None:
    """Return the node of the leading master among a group's children, None when none is a master's.

    What has no sequence number, such as `log_replicas`, is no master's.
    """
    nodes = [(int(match["sequence"]), name) for name in children if (match := _NODE.match(name)) is not None]
    return min(nodes)[1] if nodes else None


def read_node(name: str, data: bytes) -> Leader:
    """Return the master that a node tells of. Raises ProtocolError when it has an unknown form."""
    match = _NODE.match(name)
    label = match["label"] if match is not None else None
    try:
        if label is None:
            pid = Pid.parse(data.decode("ascii").strip())
            return Leader(pid, {"pid": str(pid), "port": pid.port, "hostname": pid.ip})
        if label == LABEL:
            info = json.loads(data)
            return Leader(Pid.parse(info["pid"] if "pid" in info else _pid_of(info)), info)
        if label == BINARY_LABEL:
            info = decode("mesos.v1.MasterInfo", data)  # the same bytes as the internal form
            return Leader(Pid.parse(info["pid"] if "pid" in info else _pid_of(info)), info)
    except (ProtocolError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"the master's node {name} is not readable: {error!r}") from None
    raise ProtocolError(f"the master's node {name} has a label that is not known ({LABEL}, {BINARY_LABEL} or none)")


def _pid_of(info: Document) -> str:
    """Return the pid that MasterInfo means when it leaves it out (it is optional)."""
    address = info.get("address") or {}
    ip = address.get("ip") or ".".join(str(octet) for octet in int(info["ip"]).to_bytes(4, "little"))
    return f"{MASTER_ID}@{ip}:{address.get('port') or info['port']}"


def write_node(info: Document) -> bytes:
    """Return the content of a master's node (`json.info_` and a sequence number) for its MasterInfo."""
    return json.dumps(info, separators=(",", ":"), sort_keys=True).encode()
