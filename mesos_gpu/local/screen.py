"""What `up` prints when a box can be used."""

from __future__ import annotations

from mesos_gpu.local.credentials import FOLDER, credential
from mesos_gpu.local.plan import MESOS_ROLE, GpuChoice, UpOptions
from mesos_gpu.local.pools import DEFAULT
from mesos_gpu.local.record import Box, Service
from mesos_gpu.local.returning import named, what_runs


def screen(box: Box, gpus: GpuChoice, options: UpOptions) -> str:
    """Return where the services are, and who is let in."""
    lines = [f"master    {box.master.url}"]
    for n, agent in enumerate(box.agents):
        name = "agent" if len(box.agents) == 1 else f"agent {agent.name.removeprefix('agent') or n + 1}"
        pool = "" if agent.pool in ("", DEFAULT) else f", pool {agent.pool}"
        lines.append(f"{name:<9} {agent.url}  {_gpus_text(agent, gpus)}{pool}")
    lines.append(f"marathon  {box.marathon.url}  role {MESOS_ROLE}")
    lines.append(f"page      {box.marathon.url}/ui/")
    lines.append(f"state     {options.work_dir}")
    back = what_runs(box.marathon.url, None if box.open else credential(options.work_dir))
    if back:
        lines.append(f"back      from last time: {named(back)}; `mesos-gpu app remove` ends one for good")
    if options.open:
        lines.append("access    open: every user of this machine may use it, and run tasks as its owner")
    elif options.group is not None:
        lines.append(f"access    by the credential in {options.work_dir / FOLDER}; mesos-gpu finds it by itself")
        lines.append(f"members   of the group {options.group} run tasks as themselves: {', '.join(options.members)}")
    else:
        lines.append(f"access    by the credential in {options.work_dir / FOLDER}; mesos-gpu finds it by itself")
    return "\n".join(lines)


def _gpus_text(agent: Service, gpus: GpuChoice) -> str:
    count = f"{agent.gpus} GPU{'' if agent.gpus == 1 else 's'}"
    if agent.gpu_driver != "simulated":
        return count
    return f"{count}, simulated{f' ({gpus.chosen_because})' if gpus.chosen_because else ''}"
