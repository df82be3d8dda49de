"""Which programs a box for tests runs, and with which flags. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from mesos_gpu.errors import BadInput
from mesos_gpu.local.plan import LOOPBACK, MESOS_ROLE, NOT_FROM_HERE, ROOM, box_id, runtime_dir

T = TypeVar("T")
Each: TypeAlias = T | Sequence[T]
"""One value for all agents, or a sequence with one for each."""
Value: TypeAlias = str | int | float | bool
"""What a flag or an attribute can be; numbers become Mesos scalars where an attribute looks like one."""

RESOURCES = "cpus:8;mem:16384;disk:16384"
"""What an agent has beside GPUs and ports unless a test says otherwise: the same on every machine."""


@dataclass(frozen=True, slots=True)
class Program:
    """One service of a box: how it is started, and where it says that it is ready and what happens."""

    name: str
    module: str
    port_flag: str
    flags: tuple[str, ...]
    ready_file: str
    log_file: str
    port: int = 0
    """0 takes a free one; the port that it then has is kept for its next start."""

    def argv(self) -> list[str]:
        """Return its flags for a start."""
        return [f"--{self.port_flag}={self.port}", f"--ready_file={self.ready_file}", *self.flags]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxWishes:
    """What a test asked for; see BoxFactory."""

    gpus: Each[int] = 4
    agents: int | None = None
    attributes: Each[Mapping[str, Value]] = field(default_factory=dict)
    resources: Each[str] = RESOURCES
    ill_gpus: Each[Mapping[int, int]] = field(default_factory=dict)
    docker_registry: str | None = None
    master_flags: Mapping[str, Value] = field(default_factory=dict)
    agent_flags: Each[Mapping[str, Value]] = field(default_factory=dict)
    marathon: bool = False

    def count(self) -> int:
        """Return how many agents: as asked, else as long as the sequences are, else 1. Raises BadInput."""
        each: dict[str, Any] = {
            "gpus": self.gpus,
            "attributes": self.attributes,
            "resources": self.resources,
            "ill_gpus": self.ill_gpus,
            "agent_flags": self.agent_flags,
        }
        lengths = {name: len(value) for name, value in each.items() if _is_sequence(value)}
        agents = self.agents if self.agents is not None else next(iter(lengths.values()), 1)
        if agents < 0:
            raise BadInput(f"agents: {agents} is negative")
        for name, length in lengths.items():
            if length != agents:
                raise BadInput(f"{name}: {length} values for {agents} agents; give one for each, or one for all")
        return agents


def master(wishes: BoxWishes, work_dir: Path) -> Program:
    """Return the master. Offers go out at once, and refusals are looked through often: tests wait for them."""
    flags: dict[str, Value] = {
        "ip": LOOPBACK,
        "work_dir": str(work_dir / "master"),
        "cluster": "mesos-gpu test",
        "allocation_interval": "50ms",
        "external_log_file": str(work_dir / "master.log"),
        **wishes.master_flags,
    }
    return _program("master", "mesos_gpu.master.service", flags, work_dir)


def agents(wishes: BoxWishes, work_dir: Path, master_at: str) -> list[Program]:
    """Return the agents of a box whose master listens at `master_at` (HOST:PORT). Raises BadInput."""
    programs = []
    count = wishes.count()
    gpus: list[int] = _each(wishes.gpus, count)
    attributes: list[Mapping[str, Value]] = _each(wishes.attributes, count)
    resources: list[str] = _each(wishes.resources, count)
    more: list[Mapping[str, Value]] = _each(wishes.agent_flags, count)
    for n in range(count):
        if isinstance(gpus[n], bool) or not isinstance(gpus[n], int) or gpus[n] < 0:
            raise BadInput(f"gpus: {gpus[n]!r} is not a number of whole GPUs")
        name = agent_name(n)
        flags: dict[str, Value] = {
            "ip": LOOPBACK,
            "master": master_at,
            "work_dir": str(work_dir / name),
            "runtime_dir": str(runtime_dir(work_dir) / name),
            "cgroups_root": f"{cgroups_prefix(work_dir)}{n + 1}",
            "registration_backoff_factor": "10ms",
            "gpu_driver": "simulated" if gpus[n] else "none",
            "simulated_gpus": gpus[n],
            "simulated_gpu_machine": n,
            "simulated_gpu_faults": str(faults_file(work_dir, n)),
            "resources": resources[n],
            "attributes": attributes_text(attributes[n]),
        }
        if wishes.docker_registry is not None:
            flags |= {"image_providers": "docker", "docker_registry": wishes.docker_registry}
        programs.append(_program(name, "mesos_gpu.agent.service", flags | dict(more[n]), work_dir))
    return programs


def marathon(work_dir: Path, master_at: str) -> Program:
    """Return Marathon, as `mesos-gpu up` runs it."""
    flags: dict[str, Value] = {
        "master": master_at,
        "http_address": LOOPBACK,
        "hostname": LOOPBACK,
        "mesos_role": MESOS_ROLE,
        "gpu_scheduling_behavior": "unrestricted",
        "store_path": str(work_dir / "marathon.db"),
    }
    program = _program("marathon", "mesos_gpu.marathon.service", flags, work_dir)
    return replace(program, port_flag="http_port")


def agent_name(n: int) -> str:
    """Return the name of the agent with this index."""
    return f"agent{n + 1}"


def cgroups_prefix(work_dir: Path) -> str:
    """Return how the cgroups of this box's agents begin; no other box of this machine has it."""
    return f"mesos-{box_id(work_dir)}-"


def faults_file(work_dir: Path, n: int) -> Path:
    """Return the file that says which simulated GPUs of an agent are unhealthy."""
    return work_dir / f"{agent_name(n)}.faults"


def faults_text(faults: Mapping[int, int]) -> str:
    """Return the content of that file for XIDs by GPU index."""
    return "".join(f"{gpu} {xid}\n" for gpu, xid in sorted(faults.items()))


def faults(wishes: BoxWishes) -> list[Mapping[int, int]]:
    """Return what each agent's GPUs suffer from when the box comes up. Raises BadInput for a GPU that is not there."""
    count = wishes.count()
    found: list[Mapping[int, int]] = _each(wishes.ill_gpus, count)
    for gpus, ill in zip(_each(wishes.gpus, count), found, strict=True):
        for gpu in ill:
            if not 0 <= gpu < gpus:
                raise BadInput(f"ill_gpus: there is no GPU {gpu} among {gpus}")
    return found


def attributes_text(attributes: Mapping[str, Value]) -> str:
    """Return `--attributes` for these. Raises BadInput for what that text cannot say."""
    for name, value in attributes.items():
        for word in (name, str(value)):
            if not word or ";" in word or "\n" in word or word != word.strip():
                raise BadInput(f"attributes: '{word}' cannot be said in --attributes")
        if ":" in name:
            raise BadInput(f"attributes: a name cannot have ':' in it, as '{name}' has")
    return ";".join(f"{name}:{value}" for name, value in attributes.items())


def _program(name: str, module: str, flags: Mapping[str, Value], work_dir: Path) -> Program:
    words = tuple(f"--{flag}={_flag_text(value)}" for flag, value in flags.items() if value != "")
    return Program(name, module, "port", words, str(work_dir / f"{name}.json"), str(work_dir / f"{name}.log"))


def _flag_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _each(value: Any, count: int) -> list[Any]:
    return list(value) if _is_sequence(value) else [value] * count


def fork_server_command(channel: int, owner: int) -> list[str]:
    """Return argv of the process that runs boxes: this very code, wherever the caller found it."""
    root = str(Path(__file__).parents[2])
    program = "from mesos_gpu.testing.fork_server import main; sys.exit(main())"
    code = f"import sys; {NOT_FROM_HERE}; sys.path.insert(0, sys.argv.pop(1)); {program}"
    return [sys.executable, "-c", code, root, str(channel), str(owner), ROOM]
