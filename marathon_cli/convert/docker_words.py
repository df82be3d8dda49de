"""Words that docker run and Compose share: GPU requests, ports, volumes, restart policies.

Sources: Docker's opts.GpuOpts, `docker run --publish` and `--volume`, the Compose specification's short forms, and
NVIDIA's container runtime for NVIDIA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import csv
import re

from marathon_cli.convert.drivers import is_driver_path, is_driver_volume
from marathon_cli.convert.model import Container, Mount, Notes, Place, Port

ALL_GPUS = "all has no number: 1 is written here, as apps say how many GPUs they take"
NO_NODES = "apps have GPUs, and devices by their CDI names, vendor.com/class=name, but no nodes of the machine"
NO_DEVICES = "the agent chooses which GPUs; their number is kept"
DRIVER = "the driver comes with the GPU, at /usr/local/nvidia"
_PORTS = re.compile(
    r"(?:(?P<ip>\[[^]]*\]|[0-9]+(?:\.[0-9]+){3}):)?(?:(?P<machine>[0-9-]*):)?(?P<port>[0-9-]+)(?:/(?P<protocol>\w+))?"
)
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def take_gpus(container: Container, text: str, place: Place, notes: Notes) -> None:
    """Give a container what `--gpus TEXT` asks for: `all`, `2`, `device=0,2`, `"device=GPU-…",capabilities=utility`."""
    count: int | None = None
    for field in next(csv.reader([text.strip()]), []):
        key, equals, value = field.strip("'\"").partition("=")
        if not equals and (key == "all" or key.isdigit()):
            key, value = "count", key
        if key == "count":
            count = _count(container, value, place, notes)
        elif key == "device":
            count = visible_gpus(value)
            notes.check(place, NO_DEVICES)
        elif key == "capabilities" and value:
            container.env.setdefault("NVIDIA_DRIVER_CAPABILITIES", value.replace(" ", ","))
        elif key not in ("driver", "options", "capabilities"):
            raise notes.bad(place, f"{text!r} is not a request for GPUs such as all, 2 or device=0,1")
    container.gpus = 1 if count is None else count


def take_visible(container: Container, devices: str | None, place: Place, notes: Notes) -> None:
    """Give a container what NVIDIA_VISIBLE_DEVICES (or NV_GPU) names to NVIDIA's runtime; None: it is not set."""
    if devices is None or devices == "all":
        container.gpus = max(1, container.gpus)
        notes.check(place, ALL_GPUS)
    elif devices in ("", "void", "none"):
        container.gpus = 0
    else:
        container.gpus = visible_gpus(devices)
        notes.check(place, NO_DEVICES)


def visible_gpus(devices: str) -> int:
    """Return how many GPUs a list of indices or UUIDs names; commas or spaces part them."""
    return len({name for name in re.split(r"[,\s]+", devices) if name})


def ports(text: str, place: Place, notes: Notes) -> list[Port]:
    """Return the ports of `[[ip:][machine]:]port[-port][/protocol]`."""
    found = _PORTS.fullmatch(text)
    inside = _range(found["port"]) if found else None
    outside = _range(found["machine"]) if found and found["machine"] else None
    if found is None or inside is None or (found["machine"] and outside is None):
        raise notes.bad(place, f"{text!r} is not a port such as 8080:80")
    if found["ip"]:
        notes.lost(place, f"the address {found['ip']}: tasks listen on the machine's own")
    machines: list[int | None] = list(outside) if outside and len(outside) == len(inside) else [None] * len(inside)
    protocol = (found["protocol"] or "tcp").lower()
    return [Port(place, port, machine, None, protocol) for port, machine in zip(inside, machines, strict=True)]


def mount(text: str, place: Place, notes: Notes) -> Mount | None:
    """Return the mount of `source:path[:options]`; None for what needs no place here, which is noted."""
    source, colon, rest = text.partition(":")
    path, _, options = rest.partition(":")
    if not colon:
        notes.lost(place, f"{text} is a volume without a name: the container's own files are there, and end with it")
        return None
    if is_driver_volume(source) or is_driver_path(source):
        notes.lost(place, DRIVER)
        return None
    return mount_of(source, path, "ro" in options.split(","), place, notes)


def mount_of(source: str, path: str, read_only: bool, place: Place, notes: Notes) -> Mount | None:
    """Return the mount of a folder of the machine; a volume that Docker manages has no counterpart, which is noted."""
    if source.startswith((".", "~")):
        notes.check(place, f"write {source} as a whole path, which all agents have")
    elif not source.startswith(("/", "$")):
        why = "use a folder of the machine, or a persistent volume of Marathon"
        notes.lost(place, f"{source} is a volume that Docker manages: {why}")
        return None
    return Mount(place, path, source, None, read_only)


def _count(container: Container, value: str, place: Place, notes: Notes) -> int:
    if value in ("all", "-1"):
        notes.check(place, ALL_GPUS)
        return 1
    if not value.isdigit():
        raise notes.bad(place, f"{value!r} is not a number of GPUs")
    return int(value)


def _range(text: str) -> range | None:
    found = _RANGE.fullmatch(text)
    if found is None or int(found[2] or found[1]) < int(found[1]) or int(found[2] or found[1]) > 65535:
        return None
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def take_device(container: Container, name: str, place: Place, notes: Notes) -> None:
    """Give a container a device of another vendor by its CDI name, where its agent gives such to tasks."""
    if name not in container.devices:
        container.devices.append(name)
    notes.check(place, f"{name}: the agent needs the vendor's CDI file, and --cdi_devices={name.partition('=')[0]}")
