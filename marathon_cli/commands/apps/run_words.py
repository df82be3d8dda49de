"""What is typed behind `mesos-gpu run`, as docker and as kubectl write it: image, name, command, GPUs, labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from marathon_cli.oneoff import oneoff
from mesos_gpu.errors import BadInput

Command = TypeVar("Command", bound=Callable[..., Any])
_NO_IMAGE = "\0--"
"""Stands for the -- in front of a command, which click would take away."""


class ImageOrCommand(click.Command):
    """A command that tells `IMAGE COMMAND...` from `-- COMMAND...`, and both from kubectl's `NAME --image=IMAGE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; kubectl's may stand behind the name."""
        at = args.index("--") if "--" in args else len(args)
        kubectl = any(word == "--image" or word.startswith("--image=") for word in args[:at])
        ctx.allow_interspersed_args = kubectl
        if at < len(args):
            args = [*args[:at], *(["--"] if kubectl else []), _NO_IMAGE, *args[at + 1 :]]
        return super().parse_args(ctx, args)


class Words(NamedTuple):
    """What is to be run: `argv` in `image`, or on the machine's own files; `name` where kubectl's form gives one."""

    image: str | None
    argv: list[str]
    name: str | None = None


def read_words(words: tuple[str, ...], image: str | None) -> Words:
    """Return what the words mean; `image` is --image. Raises UsageError when nothing is to be run."""
    if image is None:
        named = None if words[:1] == (_NO_IMAGE,) else next(iter(words), None)
        argv = ["--" if word == _NO_IMAGE else word for word in words[1:]]
        if named is None and not argv:
            raise click.UsageError("give an IMAGE, or a command behind --")
        return Words(named, argv)
    end = words.index(_NO_IMAGE) if _NO_IMAGE in words else len(words)
    before, behind = words[:end], words[end + 1 :]
    if behind and len(before) > 1:
        raise click.UsageError(f"with --image one NAME stands in front of --, not {' '.join(before)}")
    return Words(image, list(behind or before[1:]), next(iter(before), None))


def kubectl_options(command: Command) -> Command:
    """Let a command take what `kubectl run` takes, where it means something for a run."""
    for option in (
        click.option("--detach", "-d", "detach", is_flag=True, hidden=True),
        click.option("--attach", "--stdin-once", "_attach", is_flag=True, hidden=True, expose_value=False),
        click.option("--restart", metavar="POLICY", hidden=True),
        click.option("--command", "entrypoint", is_flag=True, help="COMMAND replaces the image's ENTRYPOINT, too."),
        click.option(
            "--requests", multiple=True, metavar="RESOURCES", help="As --limits, for what that does not name."
        ),
        click.option(
            "--limits",
            multiple=True,
            metavar="RESOURCES",
            help="As kubectl: cpu=2,memory=4Gi,nvidia.com/gpu=1; without a GPU in it there is none.",
        ),
        click.option("--image", metavar="IMAGE", help="As kubectl: run NAME --image IMAGE -- COMMAND."),
    ):
        command = option(command)
    return command


def refuse_what_no_run_can(options: Mapping[str, Any]) -> None:
    """Raise BadInput for docker's and kubectl's wishes that a run, which is watched to its end, cannot fulfil."""
    if options["detach"]:
        raise BadInput(
            "-d: a run is watched to its end, and ends with us; "
            "`mesos-gpu convert docker run ... | mesos-gpu apply -f -` leaves it running"
        )
    if options["restart"] not in (None, "Never"):
        raise BadInput(
            f"--restart={options['restart']}: a run runs once (Never); an app is started again, a job may be: "
            "`mesos-gpu app add`, `mesos-gpu job add`"
        )


def with_limits(options: dict[str, Any], given: Callable[[str], bool]) -> dict[str, Any]:
    """Return the options with what --limits and --requests ask for, where nothing else says it. Raises BadInput.

    `given` tells whether an option was typed.
    """
    if not options["limits"] and not options["requests"]:
        return options
    from marathon_cli.convert.limits import Limits, read_limits

    limits = read_limits(options["limits"]) if options["limits"] else Limits()
    if options["requests"]:
        requests = read_limits(options["requests"], "--requests")
        said = {name: value for name, value in limits._asdict().items() if value is not None}
        limits = requests._replace(**said)
    found = dict(options)
    for name, value in (("cpus", limits.cpus), ("mem", limits.mem_mib), ("disk", limits.disk_mib)):
        if value is not None and not given(name):
            found[name] = value
    if found["gpus"] is None and not found["devices"] and found["gpu_mem"] is None:
        if limits.gpu_mem_gib is not None:
            found["gpu_mem"] = f"{limits.gpu_mem_gib}GiB"
        else:
            found["gpus"] = limits.gpus or 0
    return found


def labels_of(texts: Sequence[str], lists: Sequence[str]) -> dict[str, str]:
    """Return labels of NAME=VALUE, and of kubectl's lists NAME=VALUE,NAME=VALUE. Raises UsageError."""
    found = {}
    # A comma may be part of a value: a list is one of pairs throughout.
    split = [part for text in lists for part in (text.split(",") if _is_list(text) else [text])]
    for text in (*texts, *split):
        name, _, value = text.partition("=")
        if not name:
            raise click.UsageError(f"--label {text!r} is not NAME=VALUE")
        found[name] = value
    return found


def _is_list(text: str) -> bool:
    return all("=" in part for part in text.split(","))


def share_of(options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the part of a GPU that is asked for. Raises BadInput."""
    if options["gpu_mem"] is None:
        if options["gpu_weight"] is not None or options["gpu_high_priority"]:
            raise BadInput("--gpu-weight and --gpu-high-priority are about a part of a GPU: say --gpu-mem, too")
        return None
    share: dict[str, Any] = {"memGiB": oneoff.gib(options["gpu_mem"]), "weight": options["gpu_weight"] or 1}
    return {**share, "highPriority": True} if options["gpu_high_priority"] else share


def whole_gpus(options: dict[str, Any], share: dict[str, Any] | None) -> int:
    """Return how many whole GPUs are asked for: 1 where nothing is said. Raises BadInput."""
    given: int | None = options["gpus"]
    if gpus := _named_gpus(options["devices"]):
        if given is not None or share is not None:
            raise BadInput("--device names GPUs one by one, --gpus says how many, --gpu-mem a part of one: say one")
        return gpus
    if options["devices"] and given is None:
        return 0
    if share is not None and given:
        raise BadInput("--gpus is about whole GPUs and --gpu-mem about a part of one: say one of them")
    return (0 if share is not None else 1) if given is None else given


def _named_gpus(devices: tuple[str, ...]) -> int:
    """Return how many GPUs CDI names ask for. Which ones they are is the agent's choice, as for every task."""
    from marathon_cli.convert.drivers import cdi_gpu

    named = {device: cdi_gpu(device) for device in devices}
    if every := next((device for device, name in named.items() if name == "all"), None):
        raise BadInput(f"--device {every}: how many that is depends on the agent; say --gpus N")
    return sum(1 for name in named.values() if name is not None)


def other_devices(devices: tuple[str, ...]) -> list[str]:
    """Return the devices of other vendors, which the agent gives by their CDI names. Raises BadInput."""
    from marathon_cli.convert.drivers import cdi_gpu, is_cdi_name

    if strange := next((device for device in devices if not is_cdi_name(device)), None):
        raise BadInput(
            f"--device {strange}: tasks have devices by their CDI names, vendor.com/class=name; on the agent's machine "
            "`mesos-gpu cdi list` shows which there are"
        )
    return [device for device in devices if cdi_gpu(device) is None]


def variable(text: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE, or of NAME, which has the value that it has here. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not name:
        raise click.UsageError(f"--env {text!r} is not NAME=VALUE")
    # As docker does: a name alone takes the value that it has here.
    return name, value if equals else os.environ.get(name, "")
