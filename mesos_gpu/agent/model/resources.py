"""What an agent has to offer: its resources and attributes, from flags and facts of the machine.

Source: Mesos src/slave/containerizer/containerizer.cpp (Containerizer::resources), src/common/attributes.cpp.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from mesos_gpu.agent.model.device_units import is_units
from mesos_gpu.agent.model.gpu_attributes import NAMES as GPU_ATTRIBUTES
from mesos_gpu.errors import BadFlag, BadResources
from mesos_gpu.mesos.ids import ANY_ROLE, Role
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import WHOLE, Resources
from mesos_gpu.mesos.shares.gpu_shares import CARDS_ATTRIBUTE, GPU_MEM, GPU_SLICES, read_cards, without_cards

DEFAULT_PORTS = "[31000-32000]"
GIB_IN_MIB = 1024
# Mesos leaves this much of the machine to everyone else, once there is twice as much.
_MEM_KEPT_MIB = 1 * GIB_IN_MIB
_DISK_KEPT_MIB = 5 * GIB_IN_MIB

_NAME = re.compile(r"^([^:()]+)")
_RANGE = re.compile(r"^\s*(\d+)\s*-\s*(\d+)\s*$")


class Machine(Struct, frozen=True):
    """What was found: CPUs, total memory, and the size of the file system that the work_dir is on."""

    cpus: int
    mem_mib: int
    disk_mib: int


def gpus_asked(text: str | None) -> int | None:
    """Return how many GPUs `--resources` names over all roles; None when it does not mention `gpus`.

    Mesos looks for the four letters anywhere in the text; we look for the resource of that name.
    Raises BadFlag for what is not a resource list, or a fraction of a GPU.
    """
    if text is None or "gpus" not in _names(text):
        return None
    thousandths = _parse(text, ANY_ROLE).milli("gpus")
    if thousandths % WHOLE:
        raise BadFlag("resources", "The 'gpus' resource must be an unsigned integer")
    return thousandths // WHOLE


def agent_resources(
    text: str | None, default_role: Role, machine: Machine, gpus: int | None, shared: str = ""
) -> Resources:
    """Return the agent's total: what `--resources` says, and the machine's own of cpus, mem, disk, ports and gpus.

    `gpus` is what discovery settled on, None when GPUs are not isolated (then `gpus` of the text pass untouched).
    A name that the text mentions, even with 0, is not detected. When the text names more GPUs than discovery left
    (one has vanished since), those that are left are kept in the order of the text. `shared` are the parts of the
    cards that are shared, as resources. Raises BadFlag.
    """
    named = _names(text or "")
    for name in (GPU_MEM, GPU_SLICES):
        if name in named:
            raise BadFlag("resources", f"names {name}, which comes from --shared_gpus: name the cards there")
    detected = {
        "cpus": str(machine.cpus),
        "mem": str(_share(machine.mem_mib, _MEM_KEPT_MIB)),
        "disk": str(_share(machine.disk_mib, _DISK_KEPT_MIB)),
        "ports": DEFAULT_PORTS,
        "gpus": str(gpus or 0),
    }
    given = _parse(text or "", default_role)
    for resource in given:
        if kind := resource.disk.get("source", {}).get("type"):
            raise BadFlag(
                "resources",
                f"names a disk of type {kind}, and this agent keeps every persistent volume below --work_dir: leave "
                "out its `source`, or put the work_dir on that disk",
            )
    missing = ";".join(f"{name}:{amount}" for name, amount in detected.items() if name not in named)
    missing = f"{missing};{shared}" if shared else missing
    total = given + Resources.parse(missing, default_role)
    return _in_mesos_order(total if gpus is None else with_gpus(total, gpus, Resources()))


def with_gpus(total: Resources, gpus: int, kept: Resources) -> Resources:
    """Return `total` with no more than this many GPUs; those of the first roles stay, before them roles of `kept`.

    `kept` is what the master reserved here, as it was before; GPUs that it has stay, for a master shuts an agent down
    that no longer has what is reserved on it.
    """
    gpus = max(gpus, kept.gpus)
    if total.gpus <= gpus:
        return total
    roles = [resource.role for resource in total if resource.name == "gpus"]
    reserved = {resource.role for resource in kept if resource.name == "gpus"}
    left = total.find("gpus", gpus * WHOLE, sorted(roles, key=lambda role: role not in reserved)) or Resources()
    return _in_mesos_order(total.filter(lambda r: r.name != "gpus") + left)


def counting_gpus(total: Resources, gpus: int, role: Role) -> Resources:
    """Return `total` with so many GPUs: those that there are in the role that they have, more of them in `role`."""
    there = with_gpus(total, gpus, Resources())
    more = Resources.parse(f"gpus:{gpus - there.gpus}", role) if gpus > there.gpus else Resources()
    return _in_mesos_order(there + more)


def with_more_gpus(total: Resources, more: int) -> Resources:
    """Return `total` with as many GPUs more, of the role that the first of them has.

    A master counts the GPUs of a suspended task as that task's: those that it gave back are offered besides.
    """
    if not more:
        return total
    role = next((resource.to_json() for resource in total if resource.name == "gpus"), None)
    document = {**(role or {"name": "gpus", "type": "SCALAR"}), "scalar": {"value": float(more)}}
    return _in_mesos_order(total + Resources.from_json([document]))


def parse_attributes(text: str | None) -> list[dict[str, Any]]:
    """Return Attribute documents of `rack:r1;level:10;keys:[1-5]`: text, scalar or ranges. Raises BadFlag."""
    return [_attribute(part.strip()) for part in (text or "").split(";") if part.strip()]


def attributes_summary(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return attributes as Mesos' endpoints show them: numbers for scalars, text for the others."""
    shown: dict[str, Any] = {}
    for attribute in attributes:
        if attribute["type"] == "SCALAR":
            shown[attribute["name"]] = attribute["scalar"]["value"]
        elif attribute["type"] == "RANGES":
            pairs = attribute["ranges"].get("range", [])
            shown[attribute["name"]] = "[" + ", ".join(f"{r['begin']}-{r['end']}" for r in pairs) + "]"
        else:
            shown[attribute["name"]] = attribute["text"]["value"]
    return shown


def changes(before: Mapping[str, Any], now: Mapping[str, Any], policy: str = "equal") -> list[str]:
    """Return how an AgentInfo differs from the checkpointed one in ways that `policy` forbids, in words for a person.

    `equal` forbids any change, `additive` only less than there was. GPUs are not compared: one that fell off the bus
    must not keep the agent, and the tasks on the other GPUs, from coming back; Mesos refuses to start then
    (docs/reference/differences.md). So is a card that is shared; those that were, and are, must be of the same size. By
    which numbers their units are offered is not compared: others stand for those of suspended tasks
    (mesos_gpu/mesos/shares/displaced.py). Source: Mesos src/slave/compatibility.cpp.
    """
    found = [
        f"{field} was {before.get(field)!r} and is {now.get(field)!r}"
        for field in ("hostname", "port", "domain")
        if before.get(field) != now.get(field)
        and not (policy == "additive" and field == "domain" and field not in before)
    ]
    had, has = read_cards(_cards(before)).keys(), read_cards(_cards(now)).keys()
    moved = had ^ has
    old, new = (without_cards(_without_gpus(info), had | has, Resources()) for info in (before, now))
    if old != new and not (policy == "additive" and new.contains(old)):
        found.append(f"resources were {old} and are {new}")
    was, are = _by_name(before, moved), _by_name(now, moved)
    if was != are and not (policy == "additive" and was.items() <= are.items()):
        found.append(f"attributes were {was} and are {are}")
    return found


def _without_gpus(info: Mapping[str, Any]) -> Resources:
    """Return the resources that make an agent another one: devices of plugins come and go, too."""
    return Resources.from_json(info.get("resources", [])).filter(lambda r: r.name != "gpus" and not is_units(r.name))


def _by_name(info: Mapping[str, Any], moved: Collection[int]) -> dict[str, Any]:
    """Return the attributes that make an agent another one; its GPUs, their driver and `moved` cards may change."""
    found = attributes_summary([each for each in info.get("attributes", []) if each["name"] not in GPU_ATTRIBUTES])
    cards = {index: label for index, label in read_cards(_cards(info)).items() if index not in moved}
    found.pop(CARDS_ATTRIBUTE, None)
    return {**found, CARDS_ATTRIBUTE: cards} if cards else found


def _cards(info: Mapping[str, Any]) -> str:
    """Return the attribute that names the shared cards."""
    found = [each for each in info.get("attributes", []) if each["name"] == CARDS_ATTRIBUTE]
    return str(found[0].get("text", {}).get("value", "")) if found else ""


def cards_before(info: Mapping[str, Any]) -> dict[int, str]:
    """Return the UUIDs of the cards that an AgentInfo says are shared, by index."""
    return {index: label.uuid for index, label in read_cards(_cards(info)).items()}


def _share(total_mib: int, kept_mib: int) -> int:
    return total_mib - kept_mib if total_mib >= 2 * kept_mib else total_mib // 2


def _parse(text: str, default_role: Role) -> Resources:
    try:
        return Resources.parse(text, default_role)
    except BadResources as error:
        raise BadFlag("resources", str(error)) from None


def _names(text: str) -> frozenset[str]:
    """Return the names that the text mentions, also those with an amount of 0, which Resources drops."""
    if text.strip().startswith("["):
        try:
            documents = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadFlag("resources", f"is not JSON: {error}") from None
        return frozenset(d["name"] for d in documents if isinstance(d, dict) and isinstance(d.get("name"), str))
    parts = (_NAME.match(part.strip()) for part in text.split(";"))
    return frozenset(match[1].strip() for match in parts if match)


def _in_mesos_order(total: Resources) -> Resources:
    order = {name: at for at, name in enumerate(("cpus", "gpus", "mem", "disk", "ports"))}

    def place(resource: Resource) -> int:
        return order.get(resource.name, len(order))

    return Resources(sorted(total, key=place))


def _attribute(text: str) -> dict[str, Any]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name or not value:
        raise BadFlag("attributes", f"'{text}' is not an attribute; write NAME:VALUE, for example rack:r1")
    if value.startswith("[") and value.endswith("]"):
        pairs = [_RANGE.match(part) for part in value[1:-1].split(",")]
        if all(pair is not None and int(pair[1]) <= int(pair[2]) for pair in pairs):
            ranges = [{"begin": int(pair[1]), "end": int(pair[2])} for pair in pairs if pair is not None]
            return {"name": name, "type": "RANGES", "ranges": {"range": ranges}}
        raise BadFlag("attributes", f"'{text}': ranges are written [BEGIN-END, ...] with BEGIN <= END")
    try:
        number = float(value)
    except ValueError:
        return {"name": name, "type": "TEXT", "text": {"value": value}}
    if number != number or number in (float("inf"), float("-inf")):
        return {"name": name, "type": "TEXT", "text": {"value": value}}
    return {"name": name, "type": "SCALAR", "scalar": {"value": number}}
