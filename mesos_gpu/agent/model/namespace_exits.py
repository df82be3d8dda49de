"""Which tasks may do without the user namespace that `--userns_remap` gives all others. Pure.

As `docker run --userns=host`, which is for who may run anything anyhow: root of such a container is the host's. Mesos
has no user namespaces, so a master that is not ours asks nobody about it; the agent does, by its own `run_tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mesos_gpu.mesos.security.authorization import Acls, Principal

LABEL, HOST = "USERNS", "host"
ROOT = "root"


def wants_out(info: Mapping[str, Any]) -> bool:
    """Return whether a TaskInfo asks for no user namespace of its own: by its label, as Docker's `--userns`."""
    labels = (info.get("labels") or {}).get("labels", ())
    return any(label["key"] == LABEL and label.get("value") == HOST for label in labels)


class NamespaceExits(Struct, frozen=True):
    """Whether an agent has user namespaces for its containers (`remapped`), and lets tasks do without (`allowed`)."""

    remapped: bool = False
    allowed: bool = False

    def takes(self, info: Mapping[str, Any]) -> bool:
        """Return whether a task, which was not refused, does without."""
        return self.remapped and wants_out(info)

    def refusal(self, acls: Acls, framework: Mapping[str, Any], info: Mapping[str, Any], *, hosted: bool) -> str | None:
        """Return why a task may not have what it asks for, or None: it asks for nothing, or may.

        `framework` is its FrameworkInfo; `hosted`: an executor runs it.
        """
        if not self.takes(info):
            return None
        asked = f"Task {info['task_id']['value']} asks for the host's user namespace by its label {LABEL}={HOST}"
        if not self.allowed:
            return f"{asked}, and this agent lets no task out of its own (--userns_remap_exempt)"
        if hosted:
            return f"{asked}, and its container is its executor's, which others may share"
        principal = Principal(framework["principal"]) if "principal" in framework else None
        if not acls.approved("run_tasks", principal, ROOT):
            return f"{asked}; that is for who may run tasks as {ROOT} (run_tasks), and its framework may not"
        return None


ALL_ALIKE = NamespaceExits()
"""Of an agent whose containers have no user namespaces."""
