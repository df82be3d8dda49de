"""DC/OS' two switches about GPUs, `enable_gpu_isolation` and `gpus_are_scarce`, as flags and in its config.yaml. Pure.

Source: dcos/dcos gen/calc.py and gen/dcos-config.yaml: the first puts `gpu/nvidia` and `cgroups/devices` into an
agent's isolation, the second is the master's filter_gpu_resources. Both are true where nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag

ISOLATION = Flag(
    "enable_gpu_isolation",
    "boolean",
    None,
    "DC/OS' switch, of agents: with --no-enable_gpu_isolation one hands out no GPUs. A master takes it and has nothing "
    "to do for it; default: as --dcos_config says, else true.",
)
SCARCE = Flag(
    "gpus_are_scarce",
    "boolean",
    None,
    "DC/OS' switch, of masters: another name of --filter_gpu_resources. An agent takes it and does nothing for it; "
    "default: as --dcos_config says, else what --filter_gpu_resources says.",
)
CONFIG = Flag(
    "dcos_config",
    "path",
    None,
    "DC/OS' config.yaml: of its keys enable_gpu_isolation and gpus_are_scarce count, where no flag says otherwise.",
)
SWITCH_FLAGS = (ISOLATION, SCARCE, CONFIG)
NAMES = (ISOLATION.name, SCARCE.name)
_GPU_ISOLATORS = frozenset(("gpu/nvidia", "cgroups/devices"))
_WORDS = {"true": True, "false": False}


def read_config(text: str, path: str) -> dict[str, bool]:
    """Return the switches that a config.yaml sets; its booleans may stand in quotes, as DC/OS writes them.

    `path` names it in messages. Raises BadFlag when it is not YAML of keys and values, or a switch neither true nor
    false.
    """
    import yaml  # takes longer to import than most of a service's start, and is rarely needed

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = "" if where is None else f" in line {where.line + 1}"
        raise BadFlag(CONFIG.name, f"{path} is not YAML{line}") from None
    if not isinstance(document, Mapping):
        raise BadFlag(CONFIG.name, f"{path} must have keys with values, as in `gpus_are_scarce: 'false'`")
    found = {}
    for name in NAMES:
        if name in document:
            value = _WORDS.get(str(document[name]).lower())
            if value is None:
                raise BadFlag(CONFIG.name, f"{path}: {name} must be true or false, not {document[name]!r}")
            found[name] = value
    return found


def agent_flags(flags: Mapping[str, Any], config: Mapping[str, bool]) -> dict[str, Any]:
    """Return an agent's flags as the switches have them: without GPUs, no isolator of theirs and no driver."""
    isolation = flags[ISOLATION.name]
    enabled = config.get(ISOLATION.name, True) if isolation is None else isolation
    if enabled:
        return dict(flags)
    kept = tuple(name for name in flags["isolation"] if name not in _GPU_ISOLATORS)
    return {**flags, "isolation": kept, "gpu_driver": "none"}


def master_flags(flags: Mapping[str, Any], config: Mapping[str, bool]) -> dict[str, Any]:
    """Return a master's flags as the switches have them. Raises BadFlag for two that contradict each other."""
    scarce, filtering = flags[SCARCE.name], flags["filter_gpu_resources"]
    if scarce and not filtering:
        raise BadFlag(SCARCE.name, "--gpus_are_scarce and --no-filter_gpu_resources contradict each other: say one")
    if scarce is None:
        scarce = config.get(SCARCE.name, True) and filtering
    return {**flags, "filter_gpu_resources": scarce}
