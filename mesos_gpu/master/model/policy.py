"""What operators want of the cluster as a whole: weights, quota, and which machines are to be maintained when."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.master.model.model import Agent
from mesos_gpu.master.model.quota import Quota, config_of, quota_of
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document

MachineKey = tuple[str, str]
"""(hostname in lower case, address): how a MachineID is compared."""


class Machine(Struct):
    """A machine of the maintenance schedule. `mode` is DRAINING or DOWN; those that are up are not kept."""

    id: Document
    unavailability: Document
    mode: str = "DRAINING"


class Policy(Struct):
    """All of it; the registry keeps it."""

    weights: dict[Role, float] = field(default_factory=dict)
    quotas: dict[Role, Quota] = field(default_factory=dict)
    schedule: Document = field(default_factory=dict)
    """The maintenance Schedule as it was given, less the machines that came up again."""
    machines: dict[MachineKey, Machine] = field(default_factory=dict)

    def copy(self) -> Policy:
        """Return one of its own that may be changed."""
        machines = {key: replace(machine) for key, machine in self.machines.items()}
        return Policy(dict(self.weights), dict(self.quotas), self.schedule, machines)

    def weight(self, role: Role) -> float:
        """Return a role's weight."""
        return self.weights.get(role, 1.0)

    def unavailability(self, agent: Agent) -> Document | None:
        """Return when an agent's machine is to be maintained, None when it is not."""
        machine = self.machines.get(key_of_agent(agent)) if self.machines else None
        return None if machine is None else machine.unavailability

    def is_down(self, hostname: str, pid: str) -> bool:
        """Return whether a machine is down, so that no agent of it may register."""
        machine = self.machines.get((hostname.lower(), Pid.parse(pid).ip)) if self.machines else None
        return machine is not None and machine.mode == "DOWN"

    def to_registry(self) -> Document:
        """Return what the registry keeps; nothing where there is nothing."""
        kept: Document = {
            "weights": dict(self.weights),
            "quota_configs": [config_of(role, quota) for role, quota in self.quotas.items()],
            "maintenance_schedule": self.schedule,
            "down_machines": [machine.id for machine in self.machines.values() if machine.mode == "DOWN"],
        }
        return {name: value for name, value in kept.items() if value}

    @classmethod
    def from_registry(cls, kept: Mapping[str, Any]) -> Policy:
        """Read what `to_registry` wrote."""
        quotas = {config["role"]: quota_of(config) for config in kept.get("quota_configs", ())}
        policy = cls(dict(kept.get("weights", {})), quotas)
        policy.set_schedule(kept.get("maintenance_schedule", {}))
        for machine_id in kept.get("down_machines", ()):
            policy.machines[key_of(machine_id)].mode = "DOWN"
        return policy

    def set_schedule(self, schedule: Document) -> None:
        """Take over a new schedule; machines that are in the old one too keep their mode."""
        old, self.machines, self.schedule = self.machines, {}, schedule
        for window in schedule.get("windows", ()):
            for machine_id in window["machine_ids"]:
                key = key_of(machine_id)
                mode = old[key].mode if key in old else "DRAINING"
                self.machines[key] = Machine(machine_id, window["unavailability"], mode)

    def set_quotas(self, quotas: Mapping[Role, Quota]) -> None:
        """Take over quotas of some roles; the default one is none."""
        kept = {**self.quotas, **quotas}
        self.quotas = {role: quota for role, quota in kept.items() if not quota.default}

    def bring_down(self, keys: Collection[MachineKey]) -> bool:
        """Note that machines of the schedule are down; return whether any was not."""
        going = [machine for key, machine in self.machines.items() if key in keys and machine.mode != "DOWN"]
        for machine in going:
            machine.mode = "DOWN"
        return bool(going)

    def forget_machines(self, keys: set[MachineKey]) -> None:
        """Take machines out of the schedule, and windows that are empty then."""
        windows = []
        for window in self.schedule.get("windows", ()):
            left = [machine_id for machine_id in window["machine_ids"] if key_of(machine_id) not in keys]
            if left:
                windows.append({**window, "machine_ids": left})
        self.set_schedule({"windows": windows} if windows else {})


def key_of(machine_id: Mapping[str, Any]) -> MachineKey:
    """Return what a MachineID is compared by."""
    return str(machine_id.get("hostname", "")).lower(), str(machine_id.get("ip", ""))


def key_of_agent(agent: Agent) -> MachineKey:
    """Return the machine that an agent runs on."""
    return agent.hostname.lower(), Pid.parse(agent.pid).ip
