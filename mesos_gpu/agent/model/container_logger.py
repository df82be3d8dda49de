"""How much is kept of what containers say, in the words of Mesos' LogrotateContainerLogger. Pure.

The agent's flags, or the parameters of Mesos' module in --modules, say it for all containers; variables of a command
for its own. Source: Mesos src/slave/container_loggers/{lib_logrotate.hpp,lib_logrotate.cpp,logrotate.cpp},
docs/logging.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.agent.flags import LOGGER, SANDBOX, AgentFlags
from mesos_gpu.container.spec.output import Kept, OutputLimits
from mesos_gpu.errors import BadFlag, BadInput
from mesos_gpu.mesos.units import parse_bytes

PAGE = 4096
DEFAULT_SIZE = 10 << 20
PREFIX = "CONTAINER_LOGGER_"
MAX_ROTATE = 1000

SETTINGS = ("max_stdout_size", "logrotate_stdout_options", "max_stderr_size", "logrotate_stderr_options")
_PARAMETERS_IGNORED = ("launcher_dir", "logrotate_path", "libprocess_num_worker_threads")
"""How Mesos' module finds and runs its helpers; ours are a part of the agent."""


class ContainerLogger(Struct, frozen=True):
    """What the agent says for all containers, and how a command's variables begin that say it for its own."""

    limits: OutputLimits
    prefix: str = PREFIX


def read_logger(flags: AgentFlags) -> ContainerLogger | None:
    """Return what the flags say, None where output is not limited. Raises BadFlag."""
    name, given = flags.container_logger, _module(flags.modules)
    sizes = {"max_stdout_size": flags.max_stdout_size, "max_stderr_size": flags.max_stderr_size}
    options = {
        "logrotate_stdout_options": flags.logrotate_stdout_options,
        "logrotate_stderr_options": flags.logrotate_stderr_options,
    }
    own = {setting: f"{size}B" for setting, size in sizes.items() if size is not None}
    own |= {setting: words for setting, words in options.items() if words is not None}
    if name == SANDBOX or (name is None and not own):
        if own:
            raise BadFlag("container_logger", f"{SANDBOX} keeps all, so that {', '.join(own)} cannot hold")
        return None
    prefix = str(given.pop("environment_variable_prefix", PREFIX))
    try:
        return ContainerLogger(_limits(OutputLimits(Kept(DEFAULT_SIZE), Kept(DEFAULT_SIZE)), given | own), prefix)
    except ValueError as error:
        raise BadFlag("container_logger", str(error)) from None


def limits_of(logger: ContainerLogger | None, command: Mapping[str, Any]) -> OutputLimits | None:
    """Return what is kept of what a command says, None: all. Raises BadInput in Mesos' words for bad variables."""
    if logger is None:
        return None
    variables = ((command.get("environment") or {}).get("variables")) or ()
    own = {
        str(variable["name"]).removeprefix(logger.prefix).lower(): str(variable.get("value", ""))
        for variable in variables
        if str(variable["name"]).startswith(logger.prefix)
    }
    try:
        return _limits(logger.limits, own)
    except ValueError as error:
        raise BadInput(f"Failed to load container logger settings: {error}") from None


def _limits(limits: OutputLimits, settings: Mapping[str, str]) -> OutputLimits:
    """Return limits with these settings over them. Raises ValueError."""
    for name in settings:
        if name not in SETTINGS:
            raise ValueError(f"Failed to load unknown flag '{name}'")
    return OutputLimits(_kept(limits.stdout, "stdout", settings), _kept(limits.stderr, "stderr", settings))


def _kept(kept: Kept, stream: str, settings: Mapping[str, str]) -> Kept:
    size, options = settings.get(f"max_{stream}_size"), settings.get(f"logrotate_{stream}_options")
    max_bytes = kept.max_bytes if size is None else parse_bytes(size)
    if max_bytes < PAGE:
        raise ValueError(f"Expected --max_stdout_size and --max_stderr_size of at least {PAGE} bytes")
    if options is None:
        return Kept(max_bytes, kept.rotate, kept.compress, kept.delay_compress)
    rotate, compress, delay = 0, False, False
    for word, values in _directives(options):
        if word == "rotate" and len(values) == 1 and values[0].isdecimal() and int(values[0]) <= MAX_ROTATE:
            rotate = int(values[0])
        elif word in ("compress", "nocompress") and not values:
            compress = word == "compress"
        elif word in ("delaycompress", "nodelaycompress") and not values:
            delay = word == "delaycompress"
        elif word not in ("missingok", "nomissingok", "notifempty", "ifempty", "size", "nocreate", "nomail"):
            raise ValueError(
                f"logrotate_{stream}_options: '{' '.join((word, *values))}' is not understood here; these are: "
                f"rotate N (at most {MAX_ROTATE}), compress, nocompress, delaycompress, nodelaycompress"
            )
    return Kept(max_bytes, rotate, compress, delay)


def _directives(options: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the words of logrotate's options, a line each; comments are left out. Source: logrotate(8)."""
    for line in options.splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield words[0], words[1:]


def _module(text: str | None) -> dict[str, str]:
    """Return the parameters that --modules gives Mesos' logger. Raises BadFlag for other modules."""
    if text is None:
        return {}
    try:
        libraries = json.loads(text)["libraries"]
        modules = [module for library in libraries for module in library.get("modules", ())]
        names = [str(module["name"]) for module in modules]
        parameters = {str(p["key"]): str(p["value"]) for module in modules for p in module.get("parameters", ())}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BadFlag("modules", 'is not the JSON of Mesos\' modules: {"libraries": [{"modules": [...]}]}') from None
    others = sorted({name for name in names if name != LOGGER})
    if others:
        raise BadFlag("modules", f"modules are C++ libraries, and this agent loads none: {', '.join(others)}")
    return {key: value for key, value in parameters.items() if key not in _PARAMETERS_IGNORED}
