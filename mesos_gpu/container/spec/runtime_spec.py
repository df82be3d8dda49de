"""What an image says about running it, merged with what a task says: Mesos' isolator docker/runtime. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from mesos_gpu.errors import BadInput
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.mesos.tasks import COMMAND_LABEL, DOCKER_COMMAND, DRIVER_LABEL

SHELL = "/bin/sh"
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
DRIVER_CAPABILITIES, CAPABILITIES_GIVEN = "NVIDIA_DRIVER_CAPABILITIES", "compute,utility"
_DRIVER_FOLDERS = {
    "PATH": ("/usr/local/nvidia/bin",),
    "LD_LIBRARY_PATH": ("/usr/local/nvidia/lib", "/usr/local/nvidia/lib64"),
}
"""What NVIDIA's images set for the driver's files (gitlab.com/nvidia/container-images/cuda, ENV of the base images)."""


class Command(Struct, frozen=True):
    """The command of a task: Mesos' CommandInfo, in its fields `shell`, `value` and `arguments`."""

    shell: bool = True
    value: str | None = None
    arguments: tuple[str, ...] = ()


def merge(command: Command, image: ImageConfig, labels: Mapping[str, str] = _NO_LABELS) -> tuple[str, ...]:
    """Return the program and its arguments for a command in an image.

    A command with a value goes before the image's ENTRYPOINT and CMD. Without one the ENTRYPOINT runs with the
    command's arguments, or with CMD when it has none; without ENTRYPOINT, the first of CMD runs, with the command's
    arguments or with the rest of CMD. With the label MESOS_GPU_COMMAND=docker the command's arguments take CMD's place
    as in Docker, which has no such first word: without ENTRYPOINT they are the program. Raises BadInput where nothing
    says what to run. Source: Mesos
    src/slave/containerizer/mesos/isolators/docker/runtime.cpp, getLaunchCommand.
    """
    if command.shell:
        if not command.value:
            raise BadInput("a shell command has no value, so there is nothing to run")
        return SHELL, "-c", command.value
    if command.value:
        # arguments[0] is argv[0] by convention; an OCI process has one field for both it and the file to execute.
        return command.value, *command.arguments[1:]
    entrypoint, cmd = image.entrypoint or (), image.cmd or ()
    if entrypoint:
        return *entrypoint, *(command.arguments or cmd)
    if command.arguments and labels.get(COMMAND_LABEL) == DOCKER_COMMAND:
        return command.arguments
    if cmd:
        return cmd[0], *(command.arguments or cmd[1:])
    raise BadInput("neither the command nor the image (by ENTRYPOINT or CMD) says what to run")


def image_environment(
    image: ImageConfig, task: Mapping[str, str], *, injected: bool, labels: Mapping[str, str] = _NO_LABELS
) -> dict[str, str]:
    """Return the variables of a container in an image: the image's, and over them the task's.

    `injected`: the driver's files are in the container. What image and task say of the driver's parts does not count:
    the variable tells programs what there is, as NVIDIA_VISIBLE_DEVICES, which the isolator sets, tells of GPUs. Where
    the task's label asked for the driver, its programs and libraries are found as in NVIDIA's own images.
    """
    variables = {**image.env, **task}
    if injected:
        variables[DRIVER_CAPABILITIES] = CAPABILITIES_GIVEN
        if DRIVER_LABEL in labels:
            for name, folders in _DRIVER_FOLDERS.items():
                there = [folder for folder in variables.get(name, "").split(":") if folder]
                variables[name] = ":".join([*there, *(folder for folder in folders if folder not in there)])
    else:
        variables.pop(DRIVER_CAPABILITIES, None)
    return variables
