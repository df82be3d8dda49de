"""A cluster in a few words, and the flags that follow from it for each program. Pure.

Sources: Mesos src/slave/containerizer/mesos/isolators/gpu/isolator.cpp (what the agent insists on) and
src/master/flags.cpp (filter, fairness, small offers); Marathon Features.scala and GpuSchedulingBehavior.scala (which
switches belong together); the GPU guide of DC/OS (its two switches, the parameters of its AWS templates).
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from mesos_gpu.errors import BadInput, Problem

PROGRAMS = ("agent", "master", "marathon")
MAKES = ("mesos-gpu", "mesos")
_ZK_PORT = 2181
_GUIDE_AMIS = {"us-west-2": "ami-d54a2cad", "us-east-1": "ami-5f5d1449", "ap-southeast-2": "ami-0d50476e"}
"""Images with NVIDIA's driver that the guide names, by region."""

_GUIDE_MASTER, _GUIDE_AGENT = "m3.xlarge", "g2.2xlarge"


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A cluster. `enable_gpu_isolation` and `gpus_are_scarce` are DC/OS' two switches, and mean the same here."""

    enable_gpu_isolation: bool = True
    gpus_are_scarce: bool = True
    """Whether machines with GPUs are kept for what uses them."""
    make: str = "mesos-gpu"
    """Whose programs: ours, or those of Mesos and Marathon."""
    master: str | None = None
    """host:port, or zk://host1:port1,host2:port2/path where several masters are elected."""
    quorum: int | None = None
    """Of Mesos' own masters; worked out from the number of masters where that is known."""
    ip: str = "127.0.0.1"
    """The address that the program listens on."""
    work_dir: str | None = None
    gpu_devices: tuple[str, ...] = ()
    """The GPUs to use of the agent's machine; none given means all."""
    images: bool = True
    """Whether tasks may run in Docker images."""
    role: str | None = None
    attributes: str | None = None
    cluster_name: str | None = None
    region: str | None = None
    ami: str | None = None
    instance_type: str | None = None
    agents: int | None = None

    def checked(self) -> Blueprint:
        """Return it, with what follows from the rest filled in. Raises BadInput for what no cluster can be."""
        if self.make not in MAKES:
            raise BadInput(f"make: {self.make!r} is none of {', '.join(MAKES)}")
        try:
            ipaddress.ip_address(self.ip)
        except ValueError:
            raise BadInput(f"ip: {self.ip!r} is not an IP address") from None
        if self.gpu_devices and not self.enable_gpu_isolation:
            raise BadInput("gpu_devices names GPUs, and enable_gpu_isolation is false: say one of the two")
        if len(set(self.gpu_devices)) != len(self.gpu_devices):
            raise BadInput(f"gpu_devices names a GPU twice: {','.join(self.gpu_devices)}")
        if self.master is not None and self.master.startswith("zk://") and "/" not in self.master[5:]:
            raise BadInput(f"master: {self.master!r} lacks its path, as in zk://host:2181/mesos")
        return self

    @property
    def zk(self) -> str | None:
        """Return where masters are elected; None where there is one master only."""
        return self.master if self.master is not None and self.master.startswith("zk://") else None

    @property
    def is_loopback(self) -> bool:
        """Return whether only its own machine reaches the program."""
        return ipaddress.ip_address(self.ip).is_loopback


def read_blueprint(document: Any, base: Blueprint) -> tuple[Blueprint, list[Problem]]:
    """Return `base` changed by what a document says, and what is wrong with the document.

    Keys are the names of Blueprint's fields. DC/OS' config.yaml serves as it is: of its keys `enable_gpu_isolation`,
    `gpus_are_scarce`, `master_list` and `cluster_name` count (true and false may stand in quotes there), and the rest
    is passed over when `master_discovery` shows that it is one.
    """
    if not isinstance(document, Mapping):
        return base, [Problem("/", "error.expected.jsobject", "a cluster was expected: keys with values")]
    known = {field.name for field in fields(Blueprint)} | {"master_list"}
    is_dcos = "master_discovery" in document or "bootstrap_url" in document
    problems: list[Problem] = []
    found: dict[str, Any] = {}
    for key, value in document.items():
        if key not in known:
            if not is_dcos:
                advice = f"known are {', '.join(sorted(known))}"
                problems.append(Problem(f"/{key}", "error.unknown.key", f"unknown key `{key}`", advice))
            continue
        if key == "master_list":
            hosts = [str(host) for host in value] if isinstance(value, list) else []
            if hosts:
                found.setdefault("master", f"zk://{','.join(f'{host}:{_ZK_PORT}' for host in hosts)}/mesos")
                found.setdefault("quorum", len(hosts) // 2 + 1)
            continue
        try:
            found[str(key)] = _value(str(key), value)
        except ValueError as error:
            problems.append(Problem(f"/{key}", "error.value", f"{error}"))
    return replace(base, **found), problems


def _value(key: str, value: Any) -> Any:
    if key in ("enable_gpu_isolation", "gpus_are_scarce", "images"):
        if isinstance(value, bool) or str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise ValueError(f"must be true or false, not {value!r}")
    if key in ("quorum", "agents"):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise ValueError(f"must be a whole number above 0, not {value!r}")
    if key == "gpu_devices":
        items = value if isinstance(value, list) else [part for part in str(value).split(",") if part.strip()]
        return tuple(str(item).strip() for item in items)
    if value is None or isinstance(value, (str, int, float)):
        return None if value is None else str(value)
    raise ValueError(f"must be text, not {value!r}")


def flags_of(program: str, plan: Blueprint) -> dict[str, str | bool]:
    """Return the flags of a program by name, without dashes; True and False are `--name` and `--no-name`."""
    makers = {"agent": _agent, "master": _master, "marathon": _marathon}
    return makers[program](plan.checked())


def program_name(program: str, plan: Blueprint) -> str:
    """Return what the program is called."""
    if plan.make == "mesos":
        return program if program == "marathon" else f"mesos-{program}"
    return f"mesos-gpu-{program}"


def _agent(plan: Blueprint) -> dict[str, str | bool]:
    ours = plan.make == "mesos-gpu"
    isolation = ["filesystem/linux", "cgroups/cpu", "cgroups/mem"]
    isolation += ["cgroups/devices"] if plan.enable_gpu_isolation else []
    isolation += ["namespaces/pid"] if ours else []
    isolation += ["docker/runtime"] if plan.images else []
    isolation += ["gpu/nvidia"] if plan.enable_gpu_isolation else []
    flags: dict[str, str | bool] = {"master": plan.master or "127.0.0.1:5050", **_listening(plan)}
    flags["work_dir"] = plan.work_dir or ("/var/lib/mesos-gpu-agent" if ours else "/var/lib/mesos/agent")
    flags["isolation"] = ",".join(isolation)
    if plan.images:
        flags["image_providers"] = "docker"
    if not ours:
        flags["containerizers"] = "mesos"
        # Else executors get the agent's own environment, LD_LIBRARY_PATH and all, into images that have other files.
        flags["executor_environment_variables"] = "{}"
    elif not plan.enable_gpu_isolation:
        flags["gpu_driver"] = "none"
    if plan.gpu_devices:
        flags["nvidia_gpu_devices"] = ",".join(plan.gpu_devices)
        flags["resources"] = f"gpus:{len(plan.gpu_devices)}"
    if plan.role:
        flags["default_role"] = plan.role
    if plan.attributes:
        flags["attributes"] = plan.attributes
    return flags


def _master(plan: Blueprint) -> dict[str, str | bool]:
    ours = plan.make == "mesos-gpu"
    flags: dict[str, str | bool] = dict(_listening(plan))
    flags["work_dir"] = plan.work_dir or ("/var/lib/mesos-gpu-master" if ours else "/var/lib/mesos/master")
    if plan.zk:
        flags["zk"] = plan.zk
        if not ours:
            flags["quorum"] = str(plan.quorum or plan.zk.split("/")[2].count(",") // 2 + 1)
    if plan.cluster_name:
        flags["cluster"] = plan.cluster_name
    flags["filter_gpu_resources"] = plan.gpus_are_scarce
    if plan.enable_gpu_isolation:
        # A team with all GPUs and few CPUs must not starve for CPUs; a machine with only GPUs left must be offered.
        flags["fair_sharing_excluded_resource_names"] = "gpus"
        flags["min_allocatable_resources"] = "cpus:0.01|mem:32|gpus:1"
    return flags


def _marathon(plan: Blueprint) -> dict[str, str | bool]:
    ours = plan.make == "mesos-gpu"
    flags: dict[str, str | bool] = {"master": plan.master or "127.0.0.1:5050"}
    flags["http_address"] = plan.ip
    if ours and not plan.is_loopback:
        flags["insecure"] = True
    if plan.zk:
        flags["zk"] = re.sub(r"/[^/]*$", "/marathon", plan.zk)
    if plan.enable_gpu_isolation:
        flags["enable_features"] = "gpu_resources"
        flags["gpu_scheduling_behavior"] = "restricted" if plan.gpus_are_scarce else "unrestricted"
    elif ours:
        flags["enable_features"] = ""
    if plan.role:
        flags["mesos_role"] = plan.role
    return flags


def _listening(plan: Blueprint) -> dict[str, str | bool]:
    flags: dict[str, str | bool] = {"ip": plan.ip}
    if plan.make == "mesos-gpu" and not plan.is_loopback:
        flags["insecure"] = True
    return flags


def dcos_config(plan: Blueprint) -> dict[str, str]:
    """Return the GPU part of DC/OS' config.yaml; its booleans are text."""
    plan.checked()
    switches = {"enable_gpu_isolation": plan.enable_gpu_isolation, "gpus_are_scarce": plan.gpus_are_scarce}
    return {name: str(value).lower() for name, value in switches.items()}


def cloudformation(plan: Blueprint) -> list[dict[str, str]]:
    """Return the GPU part of the parameters of DC/OS' advanced AWS templates, as `aws cloudformation` takes them.

    Raises BadInput where no image with NVIDIA's driver is named, and the guide names none for the region.
    """
    plan.checked()
    ami = plan.ami or _GUIDE_AMIS.get(plan.region or "us-west-2")
    if ami is None:
        known = ", ".join(sorted(_GUIDE_AMIS))
        raise BadInput(f"no image with NVIDIA's driver is known for {plan.region}: give ami (known are {known})")
    agent = plan.instance_type or _GUIDE_AGENT
    values = {
        "CustomAMI": ami,
        "MasterInstanceType": _GUIDE_MASTER,
        "PrivateAgentInstanceType": agent,
        "PublicAgentInstanceType": agent,
    }
    if plan.agents is not None:
        values["PrivateAgentInstanceCount"] = str(plan.agents)
    return [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]


Flags = Mapping[str, "str | bool"]

_KILL_MODE = """\
# A stop of the agent leaves its containers running; the next start takes them up again.
KillMode=process
Delegate=true
"""


def words(flags: Flags) -> list[str]:
    """Return the flags as words of a command line."""
    shown = []
    for name, value in flags.items():
        if isinstance(value, bool):
            shown.append(f"--{name}" if value else f"--no-{name}")
        else:
            shown.append(f"--{name}={value}")
    return shown


def marathon_words(flags: Flags) -> list[str]:
    """Return the flags as Marathon of Mesosphere reads them: values stand as words of their own."""
    shown: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            shown.append(f"--{name}" if value else f"--disable_{name}")
        else:
            shown += [f"--{name}", value]
    return shown


def shell(program: str, arguments: list[str]) -> str:
    """Return a command for a POSIX shell, a flag on each line."""
    lines = [program]
    for word in arguments:
        if word.startswith("--") or not lines:
            lines.append(f"  {shlex.quote(word)}")
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(lines) + "\n"


def environment(prefix: str, flags: Flags) -> str:
    """Return lines for a file of variables, as /etc/default has them."""
    lines = []
    for name, value in flags.items():
        text = str(value).lower() if isinstance(value, bool) else value
        lines.append(f"{prefix}{name.upper()}={shlex.quote(text)}\n")
    return "".join(lines)


def unit(program: str, path: str, arguments: list[str], *, keeps_containers: bool) -> str:
    """Return a service unit of systemd. `path` is the program's, which must be absolute there.

    Source: systemd.service(5), "Command lines", and systemd.syntax(7), "Quoting".
    """
    command = " \\\n  ".join([path, *_joined(arguments)])
    return (
        f"[Unit]\nDescription={program}\nAfter=network-online.target\nWants=network-online.target\n\n"
        f"[Service]\nExecStart={command}\nRestart=always\nRestartSec=5\n{_KILL_MODE if keeps_containers else ''}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _joined(arguments: list[str]) -> list[str]:
    """Return one line for each flag, its value beside it."""
    lines: list[str] = []
    for word in arguments:
        if word.startswith("--") or not lines:
            lines.append(_systemd_quoted(word))
        else:
            lines[-1] += f" {_systemd_quoted(word)}"
    return lines


def _systemd_quoted(word: str) -> str:
    text = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./|{}$()-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
