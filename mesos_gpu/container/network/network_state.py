"""What is on disk of a container's networks: what it takes to leave them, and the files that the container sees."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from mesos_gpu.base.records import Record
from mesos_gpu.container.spec import cni
from mesos_gpu.container.spec.cni import DefaultDns, Document, Network
from mesos_gpu.errors import Unavailable

STATE, NAMESPACE = "network.json", "ns"
FILES = ("hosts", "hostname", "resolv.conf")
RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
"""Where the first names a resolver on the loopback, which a container cannot reach, the second has the real ones."""


class Attachment(msgspec.Struct):
    """One network of one container; `result` is None until the plugins' ADD is done."""

    name: str
    version: str
    plugins: list[Document]
    interface: str
    info: Document
    result: Document | None = None

    def network(self) -> Network:
        """Return the network as it was when the container joined it."""
        return Network(self.name, self.version, tuple(self.plugins))


class State(msgspec.Struct):
    """What is on disk of one container; `plugins` are the folders in which those that it joined by were found."""

    hostname: str
    attachments: list[Attachment] = []
    plugins: list[str] = []


class Joined(Struct, frozen=True):
    """What a container gets of its networks. `namespace` is a descriptor of ours, None for the host's.

    `files` are those of the container that are its own, with where they lie.
    """

    hostname: str
    namespace: int | None
    files: tuple[tuple[str, Path], ...]
    infos: tuple[Document, ...] = ()


def as_joined(place: Path, state: State, namespace: int | None) -> Joined:
    """Return what a container has that has joined; `place` is its folder."""
    files = tuple((f"/etc/{name}", path) for name in FILES if (path := place / name).exists())
    infos = tuple(
        cni.shown(one.info, cni.read_answer(one.result)) for one in state.attachments if one.result is not None
    )
    return Joined(state.hostname, namespace, files, infos)


def write_files(place: Path, state: State, default_dns: DefaultDns) -> None:
    """Write the files that a container that has joined sees in its /etc. Raises OSError."""
    said = [(one.name, cni.read_answer(one.result or {})) for one in state.attachments]
    answers = [cni.with_default(name, answer, default_dns) for name, answer in said]
    hosts = Path("/etc/hosts")
    otherwise = hosts.read_text(errors="replace") if not answers and hosts.exists() else ""
    (place / "hosts").write_text(cni.hosts_text(state.hostname, answers, otherwise))
    (place / "hostname").write_text(f"{state.hostname}\n")
    resolver = cni.resolver_text(answers) or (_resolver() if answers else None)
    if resolver is not None:
        (place / "resolv.conf").write_text(resolver)
    for name in FILES:
        if (place / name).exists():
            (place / name).chmod(0o644)


def _resolver() -> str | None:
    """Return the host's own resolv.conf, for networks that name no nameserver."""
    texts = [path.read_text(errors="replace") for path in RESOLVERS if path.is_file()]
    reachable = [text for text in texts if not _on_loopback(text)]
    return next(iter([*reachable, *texts]), None)


def _on_loopback(text: str) -> bool:
    servers = [line.split()[1] for line in text.splitlines() if line.startswith("nameserver") and len(line.split()) > 1]
    return bool(servers) and all(server.startswith("127.") or server == "::1" for server in servers)


def record_of(place: Path) -> Record[State]:
    """Return the record in a container's folder. Not durable: a container ends with its machine."""
    what, advice = "the networks of its container", "remove the file once that container has ended"
    return Record(place / STATE, State, what=what, advice=advice, durable=False)


def load(place: Path) -> State | None:
    """Return what is on disk in a container's folder, None when nothing that can be read is."""
    try:
        return record_of(place).load()
    except Unavailable:
        return None


def save(place: Path, state: State) -> None:
    """Replace what is on disk. Raises Unavailable."""
    record_of(place).save(state)
