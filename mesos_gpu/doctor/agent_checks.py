"""Do the flags of a running agent make it hand out GPUs? Pure.

Sources: Mesos src/slave/containerizer/mesos/isolators/gpu/isolator.cpp and allocator.cpp; docs/reference/flags.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mesos_gpu.doctor.facts import RunningAgent
from mesos_gpu.doctor.finding import Finding, Verdict


def agent_findings(agent: RunningAgent, gpus_here: int | None) -> Iterator[Finding]:
    """Yield what is wrong with an agent's flags; `gpus_here` is how many GPUs this machine has, None where unknown."""
    name = f"agent {agent.url}"
    isolators = [part.strip() for part in agent.flags.get("isolation", "").split(",") if part.strip()]
    problems = list(_isolation(name, isolators))
    problems += list(_devices(name, agent, isolators))
    yield from problems
    if "docker" in agent.flags.get("image_providers", "") and "docker/runtime" not in isolators:
        yield Finding(
            name,
            Verdict.WARNING,
            "--image_providers has docker, and --isolation not docker/runtime: images lose their entry points",
            "add docker/runtime to --isolation",
        )
    if _believes_anybody(agent):
        yield Finding(
            name,
            Verdict.NOTE,
            "it accepts messages from every sender, as Mesos' agent does: who reaches its port starts root's tasks",
            "on a single machine give it and the master --same_user_peers; in a cluster keep its port firewalled",
        )
    if agent.flags.get("userns_remap"):
        numbers = agent.flags["userns_remap"]
        yield Finding(name, Verdict.OK, f"its containers have user namespaces, whose users have numbers of {numbers}")
    for reason in agent.withdrawn:
        yield Finding(
            name,
            Verdict.WARNING,
            f"a GPU is withdrawn: {reason}",
            "when it is well again: POST /gpus/UUID/healthy on that machine, or --gpu_retest_interval",
        )
    if agent.gpus:
        few = gpus_here is not None and agent.gpus + len(agent.withdrawn) < gpus_here and not _simulated(agent)
        yield Finding(
            name,
            Verdict.NOTE if few else Verdict.OK,
            f"it offers {agent.gpus:g} GPUs" + (f" of the {gpus_here} here" if few else ""),
        )
    elif not problems:
        yield Finding(
            name,
            Verdict.WARNING if gpus_here else Verdict.NOTE,
            "it offers no GPUs" + (f", and {gpus_here} are here" if gpus_here else ""),
            "its log tells why; start it again once `mesos-gpu doctor` finds no problem" if gpus_here else "",
        )


def _believes_anybody(agent: RunningAgent) -> bool:
    """Return whether nothing but a firewall keeps forged messages away; Mesos' own agent has no other means."""
    return agent.flags.get("same_user_peers", "false") != "true"


def _isolation(name: str, isolators: list[str]) -> Iterator[Finding]:
    if "gpu/nvidia" not in isolators:
        yield Finding(
            name, Verdict.PROBLEM, "--isolation lacks gpu/nvidia: it gives no GPUs to tasks", _add("gpu/nvidia")
        )
        return
    if "cgroups/devices" not in isolators and "cgroups/all" not in isolators:
        text = "--isolation lacks cgroups/devices (or cgroups/all), without which tasks can open every GPU"
        yield Finding(name, Verdict.PROBLEM, text, _add("cgroups/devices"))
    if "filesystem/linux" not in isolators:
        text = "--isolation lacks filesystem/linux, without which tasks do not get the driver's files"
        yield Finding(name, Verdict.PROBLEM, text, _add("filesystem/linux"))
    filesystems = [isolator for isolator in isolators if isolator.startswith("filesystem/")]
    if len(filesystems) > 1:
        text = f"--isolation has {' and '.join(filesystems)}"
        yield Finding(name, Verdict.PROBLEM, text, "keep filesystem/linux only")
    twice = sorted({isolator for isolator in isolators if isolators.count(isolator) > 1})
    if twice:
        yield Finding(name, Verdict.PROBLEM, f"--isolation has {', '.join(twice)} twice", "keep one of them")


def _devices(name: str, agent: RunningAgent, isolators: list[str]) -> Iterator[Finding]:
    """Check --nvidia_gpu_devices against the gpus of --resources: Mesos takes both or neither."""
    devices = [part for part in agent.flags.get("nvidia_gpu_devices", "").split(",") if part.strip()]
    resources = agent.flags.get("resources", "")
    amounts = [float(amount) for amount in re.findall(r"(?:^|;)\s*gpus(?:\([^)]*\))?:([0-9.]+)", resources)]
    asked = sum(amounts) if amounts else None
    if asked == 0:
        yield Finding(
            name,
            Verdict.NOTE,
            "--resources says gpus:0, so it offers none",
            "leave gpus out of --resources to offer all",
        )
    elif devices and asked is None:
        text = "--nvidia_gpu_devices is given without gpus in --resources"
        yield Finding(name, Verdict.PROBLEM, text, f"add gpus:{len(devices)} to --resources")
    elif asked is not None and not devices and "gpu/nvidia" in isolators:
        text = f"--resources says gpus:{asked:g} without --nvidia_gpu_devices"
        yield Finding(name, Verdict.PROBLEM, text, "name the GPUs by --nvidia_gpu_devices, or leave gpus out")
    elif asked is not None and devices and asked != len(devices):
        text = f"--resources says gpus:{asked:g}, and --nvidia_gpu_devices names {len(devices)}"
        yield Finding(name, Verdict.PROBLEM, text, "make both numbers equal")


def _simulated(agent: RunningAgent) -> bool:
    return agent.flags.get("gpu_driver") == "simulated"


def _add(isolator: str) -> str:
    return f"add {isolator} to --isolation (`mesos-gpu flags agent` prints the whole line), and start the agent again"
