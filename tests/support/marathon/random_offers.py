"""Random machines, apps and flags that decide how offers are matched."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mesos_gpu.marathon.matching.machines import Machine, read_machine
from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour, Rules
from tests.support.marathon.builders import ROLE, spec

CARDS = {"gpu_shared_cards": "0=GPU-a/16,1=GPU-b/16"}
PARTS = {"gpu_mem": "[0-15, 1000-1015]", "gpu_slices": "[0-24, 1000-1024]"}


def machine(name: str = "gpu1", **more: Any) -> Machine:
    total = {"cpus": 8, "gpus": 4, "mem": 16384, "disk": 1000, "ports": "[31000-32000]", **more.pop("total", {})}
    return read_machine({"id": f"A-{name}", "hostname": name, "resources": total, **more})


amounts = st.integers(0, 4)
machines = st.builds(
    lambda cpus, gpus, used, ports, rack, region: machine(
        total={"cpus": 2 + cpus, "gpus": gpus, "ports": f"[31000-{31000 + ports}]", **PARTS},
        used_resources={"cpus": used, "gpus": min(used, gpus), "gpu_mem": f"[0-{3 * used}]"},
        attributes={**CARDS, **({"rack": rack} if rack else {})},
        domain={"fault_domain": {"region": {"name": region}, "zone": {"name": "z"}}} if region else {},
    ),
    amounts,
    amounts,
    amounts,
    st.integers(0, 4),
    st.sampled_from(["r1", "", "r2"]),
    st.sampled_from(["", "", "", "north"]),
)
specs = st.builds(
    lambda cpus, gpus, gib, ports, constraints, roles: spec(
        cpus=0.5 + cpus,
        **({"gpus": gpus} if not gib else {"gpuShare": {"memGiB": 4 * gib}}),
        portDefinitions=[{"port": 31000 + at} for at in range(ports)],
        requirePorts=ports == 1,
        constraints=constraints,
        **({"acceptedResourceRoles": roles} if roles else {}),
    ),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from([0, 0, 1, 3, 10]),
    st.integers(0, 3),
    st.sampled_from([[], [], [], [["rack", "IS", "r1"]], [["rack", "UNIQUE"]], [["@region", "IS", "north"]]]),
    st.sampled_from([[], [], [], ["*"], [ROLE]]),
)
rules = st.builds(
    Rules,
    st.sampled_from([GpuBehaviour.UNRESTRICTED, GpuBehaviour.RESTRICTED]),
    st.sampled_from([RolesBehaviour.ANY, RolesBehaviour.ANY, RolesBehaviour.UNRESERVED, RolesBehaviour.RESERVED]),
    st.sampled_from([None, "north", "south"]),
    st.booleans(),
)
