"""Which programs a box runs, with which flags, and when a dead one is started again. Pure, but for a `~` in a path."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.wirings import PAIRS
from mesos_gpu.local.bridge import NETWORK, PLUGINS
from mesos_gpu.local.credentials import ACLS, FOLDER, MARATHON, hint, member_login_file, member_secret_file
from mesos_gpu.local.members import hint as members_hint
from mesos_gpu.local.members import marathon_of
from mesos_gpu.local.pools import DEFAULT, Layout, Pool, Seat, default_layout, read_pools

LOOPBACK = "127.0.0.1"
REALM = "mesos-gpu box"
NOT_FROM_HERE = "sys.path[:] = [folder for folder in sys.path if folder]"
"""Code that has a program started by `python -c` import nothing from the folder that it is started in."""
ROOM = " " * 8192
"""An argument for who forks services: a command line can only be replaced by one that is no longer."""
DOCKER_HUB = "https://registry-1.docker.io"
SIMULATED_GPUS = 4
"""Of each agent of a box where nobody says how many."""
MAX_LOG_MIB = 10
"""How large the log of a service gets before a new one is begun; four older ones are kept."""
MESOS_ROLE = "slave_public"
"""The role of the box's Marathon, as on DC/OS, whose documents ask for it in acceptedResourceRoles."""

FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 30.0
STEADY_S = 60.0
"""A service that ran this long before it died starts again with the first delay."""

RUNTIME = Path("/run/mesos-gpu")
"""Where boxes keep what must not outlive a reboot, each below its `box_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What `mesos-gpu up` was asked for. Port 0 takes any free one; agents take agent_port, +1, and so on."""

    work_dir: Path
    gpu_driver: str | None = None
    simulated_gpus: int | None = None
    """Of each agent; None: SIMULATED_GPUS, or as many as its pools had."""
    agents: int | None = None
    """None: 1, or as many as its pools had."""
    master_port: int = 5050
    agent_port: int = 5051
    marathon_port: int = 8080
    docker_registry: str = DOCKER_HUB
    docker_config: str | None = None
    pools: tuple[str, ...] = ()
    """Pools of agents in place of `agents` and `simulated_gpus`, as `read_pool` reads them."""
    enable_gpu_isolation: bool | None = None
    gpus_are_scarce: bool | None = None
    """DC/OS' two switches; None: GPUs are handed out, the master keeps GPU machines for who asks for GPUs, and the
    box's Marathon does not."""
    dcos_config: str | None = None
    """The config.yaml that says the switches, where the two do not."""
    shared_gpus: str | None = None
    """Of each agent: those that tasks share, as its flag of that name takes them."""
    detach: bool = False
    group: str | None = None
    """The Unix group whose members are let in, each with a Marathon that runs tasks as him."""
    members: Mapping[str, int] = field(default_factory=dict)
    """Who that is, by name, with the users' numbers."""
    open: bool = False
    """Whether everybody who can reach the services may use them; else they ask for the box's credential."""

    def checked(self) -> UpOptions:
        """Return these options with an absolute work_dir. Raises BadInput for what no box can be."""
        if self.group is not None and self.open:
            raise BadInput("--open lets everybody in, and --group a few: say one of the two")
        if self.pools and self.sized:
            raise BadInput("--pool says how many agents and GPUs there are: leave --agents and --simulated_gpus out")
        wishes = read_pools(self.pools)
        if self.gpu_driver == "nvml" and any(wish.pool.make for wish in wishes):
            raise BadInput(
                "--pool: model, memory and driver are those of simulated GPUs, and --gpu_driver=nvml's are real"
            )
        if self.gpu_driver == "none" and any(wish.pool.gpus for wish in wishes):
            raise BadInput("--pool: with --gpu_driver=none there are no GPUs; gpus=0 says so")
        if self.shared_gpus and self.gpu_driver == "nvml" and (self.pools or (self.agents or 1) > 1):
            raise BadInput(
                "--shared_gpus with real GPUs is for a box of one agent: which agent has which of them is dealt out"
            )
        if self.agents is not None and self.agents < 1:
            raise BadInput(f"--agents: a box needs at least 1 agent, not {self.agents}")
        if self.simulated_gpus is not None and self.simulated_gpus < 0:
            raise BadInput(f"--simulated_gpus: {self.simulated_gpus} is negative")
        ports = [port for port in (self.master_port, *self.agent_ports(), self.marathon_port) if port]
        if len(set(ports)) != len(ports):
            raise BadInput(f"two services would share a port: {', '.join(map(str, ports))}")
        if any(not 0 <= port <= 65535 for port in ports):
            raise BadInput(f"ports run from 0 to 65535: {', '.join(map(str, ports))}")
        registry, config = self.docker_registry, self.docker_config
        if not registry.startswith(("http://", "https://", "file:")):
            registry = str(Path(registry).expanduser().absolute())
        if config is not None and not config.lstrip().startswith("{"):
            config = str(Path(config).expanduser().absolute())
        work_dir = self.work_dir.expanduser().absolute()
        return replace(self, work_dir=work_dir, docker_registry=registry, docker_config=config)

    @property
    def sized(self) -> bool:
        """Return whether numbers of agents or simulated GPUs were asked for; else those of last time come back."""
        return self.agents is not None or self.simulated_gpus is not None

    def layout(self, cards: Sequence[int] | None) -> Layout:
        """Return the layout of a box that was told of no pools."""
        gpus = SIMULATED_GPUS if self.simulated_gpus is None else self.simulated_gpus
        return default_layout(self.agents or 1, gpus, cards)

    def agent_ports(self) -> Sequence[int]:
        """Return one port per agent."""
        count = sum(wish.agents for wish in read_pools(self.pools)) if self.pools else self.agents or 1
        return [self.agent_port and self.agent_port + n for n in range(count)]


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """Where the box's GPUs come from; `devices` has the indices of the real ones."""

    driver: str
    devices: tuple[int, ...] = ()
    chosen_because: str = ""

    @property
    def cards(self) -> tuple[int, ...] | None:
        """Return the real GPUs to deal out; None where GPUs are simulated, or there are none."""
        return self.devices if self.driver == "nvml" else None


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One program: its name in the box, module, port and the flags that do not depend on other services."""

    name: str
    module: str
    port: int
    port_flag: str
    flags: tuple[str, ...]

    def argv(self, *, port: int, ready_file: Path, extra: Sequence[str] = ()) -> list[str]:
        """Return the flags for a start on `port`."""
        return [
            f"--{self.port_flag}={port}",
            f"--ready_file={ready_file}",
            f"--max_log_size={MAX_LOG_MIB}MB",
            *self.flags,
            *extra,
        ]


def program(module: str, version: tuple[int, ...] = sys.version_info[:2]) -> list[str]:
    """Return argv that runs a module of ours, wherever it is called: what lies in the present folder is not imported.

    `python -m` looks there first, so a json.py of whoever owns the folder would run as root. Python has an option
    against that since 3.11 (-P); before, the program leaves the entry out itself.
    """
    if version >= (3, 11):
        return [sys.executable, "-P", "-m", module]
    code = f"import sys; {NOT_FROM_HERE}; import runpy; runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
    return [sys.executable, "-c", code, module]


def master_spec(options: UpOptions) -> ServiceSpec:
    """Return the master: loopback only, GPUs excluded from fair sharing (its own default)."""
    flags = (
        f"--ip={LOOPBACK}",
        f"--work_dir={options.work_dir / 'master'}",
        "--cluster=mesos-gpu box",
        "--same_user_peers",
        f"--external_log_file={options.work_dir / 'log' / 'master.log'}",
        "--json_suffixes",
        *([] if options.gpus_are_scarce is not False else ["--no-gpus_are_scarce"]),
        *_asking_master(options),
    )
    return ServiceSpec("master", "mesos_gpu.master.service", options.master_port, "port", flags)


def agent_specs(options: UpOptions, gpus: GpuChoice, layout: Layout | None = None) -> list[ServiceSpec]:
    """Return the agents of a layout; without one those of a box that was told of no pools.

    Each shows the whole machine's cpus and memory, as if it were a machine of its own. Real GPUs are dealt out among
    them, so that none is offered twice; simulated ones are made for each.
    """
    seats = layout or options.layout(gpus.cards)
    return [agent_spec(options, gpus, seats, seat) for seat in seats.seats]


def agent_spec(options: UpOptions, gpus: GpuChoice, layout: Layout, seat: Seat) -> ServiceSpec:
    """Return one agent of a layout."""
    name, pool = seat.name, layout.pool(seat.pool)
    flags = [
        f"--ip={LOOPBACK}",
        f"--work_dir={options.work_dir / name}",
        f"--runtime_dir={runtime_dir(options.work_dir) / name}",
        f"--external_log_file={options.work_dir / 'log' / f'{name}.log'}",
        f"--cgroups_root={cgroups_root(options.work_dir, seat.number)}",
        "--registration_backoff_factor=10ms",
        "--same_user_peers",
        "--image_providers=docker",
        "--json_suffixes",
        f"--docker_registry={options.docker_registry}",
        f"--network_cni_config_dir={networks_dir(options.work_dir)}",
        f"--network_cni_plugins_dir={':'.join(PLUGINS)}",
        *_asking_agent(options),
    ]
    if options.docker_config is not None:
        flags += [f"--docker_config={options.docker_config}"]
    # The agents of a box that knew no pools have none: an agent may not come back with other attributes.
    if pool.name != DEFAULT:
        flags += [f"--attributes={pool.attributes}"]
    flags += _gpu_flags(gpus, layout, seat, pool)
    if options.shared_gpus and (gpus.driver == "simulated" or len(layout.seats) == 1):
        flags += [f"--shared_gpus={options.shared_gpus}"]
    if options.members:
        flags += ["--no-user_privileges"]
    if options.enable_gpu_isolation is False:
        flags += ["--no-enable_gpu_isolation"]
    port = options.agent_port and options.agent_port + seat.number - 1
    if port in (options.master_port, options.marathon_port):
        port = 0
    return ServiceSpec(name, "mesos_gpu.agent.service", port, "port", tuple(flags))


def _gpu_flags(gpus: GpuChoice, layout: Layout, seat: Seat, pool: Pool) -> Sequence[str]:
    if gpus.driver == "simulated":
        if not pool.gpus and pool.name != DEFAULT:
            return ("--gpu_driver=none",)
        said = ["--gpu_driver=simulated", f"--simulated_gpus={pool.gpus}", f"--simulated_gpu_machine={seat.number - 1}"]
        if pool.make is not None:
            said += [f"--simulated_gpu_model={pool.make.model}", f"--simulated_gpu_memory={pool.make.memory_mib}MB"]
            said += [f"--simulated_gpu_driver_version={pool.make.driver_version}"]
            # An agent of a version before knows no such flag, and has no other wiring.
            said += [] if pool.make.topology == PAIRS else [f"--simulated_gpu_topology={pool.make.topology}"]
        return said
    if gpus.driver == "nvml" and (len(layout.seats) > 1 or pool.name != DEFAULT):
        if not seat.devices:
            return ("--gpu_driver=none",)
        mine = ",".join(map(str, seat.devices))
        return ("--gpu_driver=nvml", f"--nvidia_gpu_devices={mine}", f"--resources=gpus:{len(seat.devices)}")
    return (f"--gpu_driver={gpus.driver}",)


def marathon_spec(options: UpOptions) -> ServiceSpec:
    """Return Marathon, in the role that DC/OS' documents expect.

    Its default keeps apps without GPUs off machines that have some free; where every machine has, they would wait.
    """
    scheduling = "restricted" if options.gpus_are_scarce else "unrestricted"
    flags = (
        f"--gpu_scheduling_behavior={scheduling}",
        *([] if options.enable_gpu_isolation is not False else ["--enable_features="]),
        f"--http_address={LOOPBACK}",
        f"--hostname={LOOPBACK}",
        f"--mesos_role={MESOS_ROLE}",
        f"--default_network_name={NETWORK}",
        f"--store_path={options.work_dir / 'marathon' / 'marathon.db'}",
        *_asking_marathon(options),
    )
    return ServiceSpec("marathon", "mesos_gpu.marathon.service", options.marathon_port, "http_port", flags)


def member_spec(options: UpOptions, member: str) -> ServiceSpec:
    """Return a member's own Marathon: its tasks run as him, in a role of his name, and it lets him in alone."""
    flags = (
        f"--gpu_scheduling_behavior={'restricted' if options.gpus_are_scarce else 'unrestricted'}",
        *([] if options.enable_gpu_isolation is not False else ["--enable_features="]),
        f"--http_address={LOOPBACK}",
        f"--hostname={LOOPBACK}",
        f"--framework_name={marathon_of(member)}",
        f"--mesos_user={member}",
        f"--mesos_role={member}",
        f"--default_network_name={NETWORK}",
        f"--store_path={store_of(options.work_dir, member)}",
        f"--mesos_authentication_principal={marathon_of(member)}",
        f"--mesos_authentication_secret_file={member_secret_file(options.work_dir, member)}",
        f"--http_credentials={member_login_file(options.work_dir, member).as_uri()}",
        f"--http_realm={REALM}",
        f"--login_hint={members_hint(options.work_dir, member)}",
    )
    return ServiceSpec(marathon_of(member), "mesos_gpu.marathon.service", 0, "http_port", flags)


def store_of(work_dir: Path, member: str) -> Path:
    """Return where the Marathon of a member keeps its state."""
    return work_dir / "marathon" / member / "marathon.db"


def _asking_master(options: UpOptions) -> Sequence[str]:
    """Return the flags with which the master asks who is there.

    Frameworks with libmesos' driver are asked by the kernel (--same_user_peers): many of them know no secret.
    """
    if options.open:
        return ()
    return (
        f"--credentials={options.work_dir / FOLDER / 'mesos.json'}",
        "--authenticate_http_readonly",
        "--authenticate_http_readwrite",
        "--authenticate_http_frameworks",
        "--http_framework_authenticators=basic",
        "--no-authenticate_frameworks",
        f"--login_hint={hint(options.work_dir)}",
        *_lists(options),
    )


def _asking_agent(options: UpOptions) -> Sequence[str]:
    """Return the flags with which an agent asks who is there.

    Executors are given tokens, which task groups need, and are let in without: pymesos' and libmesos' know none.
    """
    if options.open:
        return ()
    return (
        f"--http_credentials={options.work_dir / FOLDER / 'agents.json'}",
        "--authenticate_http_readonly",
        "--authenticate_http_readwrite",
        "--http_authenticators=basic,jwt",
        f"--jwt_secret_key={options.work_dir / FOLDER / 'executors.key'}",
        f"--login_hint={hint(options.work_dir)}",
        *_lists(options),
    )


def _lists(options: UpOptions) -> Sequence[str]:
    return (f"--acls={options.work_dir / FOLDER / ACLS}",) if options.members else ()


def _asking_marathon(options: UpOptions) -> Sequence[str]:
    """Return the flags with which Marathon asks who is there; who it is to the master is the same in any box."""
    who = f"--mesos_authentication_principal={MARATHON}"
    if options.open:
        return (who,)
    return (
        who,
        f"--mesos_authentication_secret_file={options.work_dir / FOLDER / 'marathon.secret'}",
        f"--http_credentials={(options.work_dir / FOLDER / 'login').as_uri()}",
        f"--http_realm={REALM}",
        f"--login_hint={hint(options.work_dir)}",
    )


def cgroups_root(work_dir: Path, number: int | str) -> str:
    """Return the cgroup in which an agent has those of its containers."""
    return f"mesos-{box_id(work_dir)}-{number}"


def box_id(work_dir: Path, runtime: Path = RUNTIME) -> str:
    """Return a short name for the box in this work_dir, for what must be named outside of it.

    It is the same under every name of the folder: by another one, a link, the next box would know nothing of containers
    that run on, and give their GPUs out twice. Earlier versions went by the name as it was given; where such a box left
    something, it keeps its own.
    """
    given, real = (_short(path) for path in (work_dir, work_dir.resolve()))
    return given if (runtime / given).exists() else real


def _short(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:8]


def runtime_dir(work_dir: Path) -> Path:
    """Return where the agents keep what must not outlive a reboot; short, because socket paths are."""
    return RUNTIME / box_id(work_dir)


def networks_dir(work_dir: Path) -> Path:
    """Return where the CNI configurations of networks lie that tasks may join; users may add theirs."""
    return work_dir / "networks"


def next_delay_s(last_delay_s: float | None, ran_s: float) -> float:
    """Return how long to wait before a service that died after `ran_s` is started again."""
    if last_delay_s is None or ran_s >= STEADY_S:
        return FIRST_DELAY_S
    return min(LONGEST_DELAY_S, last_delay_s * 2)
