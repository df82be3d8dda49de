"""DC/OS' two switches about GPUs, `enable_gpu_isolation` and `gpus_are_scarce`, as flags and in its config.yaml. Pure.

Source: dcos/dcos gen/calc.py and gen/dcos-config.yaml: the first puts `gpu/nvidia` and `cgroups/devices` into an
agent's isolation, the second is the master's filter_gpu_resources. Both are true where nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesos_gpu.errors import BadFlag

ISOLATION, SCARCE = "enable_gpu_isolation", "gpus_are_scarce"
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
        raise BadFlag("dcos_config", f"{path} is not YAML{line}") from None
    if not isinstance(document, Mapping):
        raise BadFlag("dcos_config", f"{path} must have keys with values, as in `gpus_are_scarce: 'false'`")
    found = {}
    for name in (ISOLATION, SCARCE):
        if name in document:
            value = _WORDS.get(str(document[name]).lower())
            if value is None:
                raise BadFlag("dcos_config", f"{path}: {name} must be true or false, not {document[name]!r}")
            found[name] = value
    return found


def gpus_enabled(flag: bool | None, config: Mapping[str, bool]) -> bool:
    """Return whether an agent offers GPUs: by --enable_gpu_isolation, else by its configuration file."""
    return config.get(ISOLATION, True) if flag is None else flag


def filters_gpus(flag: bool | None, filtering: bool, config: Mapping[str, bool]) -> bool:
    """Return whether a master keeps GPU machines for frameworks that use GPUs: by --gpus_are_scarce, else by its file.

    `filtering` is --filter_gpu_resources. Raises BadFlag if the two flags contradict each other.
    """
    if flag and not filtering:
        raise BadFlag(SCARCE, "--gpus_are_scarce and --no-filter_gpu_resources contradict each other: say one")
    return config.get(SCARCE, True) and filtering if flag is None else flag
