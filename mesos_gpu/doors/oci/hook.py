"""The hook: takes a lease for the container that is being made, and gives it what was lent.

    nvidia-container-runtime-hook prestart      as Docker's --gpus and podman's hook files call it: lends and gives
    ... lease --gpu UUID [--gpu UUID ...]       lends those; what makes the container gives the nodes (CDI)
    ... bind LEASE                              the container's first process holds the lease from now on

Each reads the OCI state of the container from stdin. A container whose hook fails is not started: no GPU is given that
is not on the book.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.base.linux.cgroups import cgroups_of
from mesos_gpu.doors.common.agent import SETTINGS, Book, find_agent
from mesos_gpu.doors.common.names import HOOK
from mesos_gpu.doors.oci.edits import device_rules, engine_folder
from mesos_gpu.doors.oci.requirements import check_requirements
from mesos_gpu.doors.oci.wanted import Wanted, environment_of, resolved, wanted
from mesos_gpu.errors import BadInput, MesosGpuError, Unavailable

_NOTHING = ("poststart", "poststop")


def main(argv: Sequence[str] | None = None, *, agent: str | None = None, settings: str | None = None) -> int:
    """Run the hook; what is wrong is one line on stderr and status 1."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog=HOOK, description="Takes GPUs for a container from the agent's book.")
    parser.add_argument("--agent", default=agent)
    parser.add_argument("--settings", default=settings or str(SETTINGS))
    parser.add_argument("--door", default="")
    kinds = parser.add_subparsers(dest="kind", required=True)
    for name in ("prestart", "createRuntime", *_NOTHING):
        kinds.add_parser(name)
    lease = kinds.add_parser("lease")
    lease.add_argument("--gpu", action="append", required=True)
    kinds.add_parser("bind").add_argument("lease")
    asked = parser.parse_args(words)
    if asked.kind in _NOTHING:
        return 0
    try:
        state = _state(sys.stdin.read())
        book = Book(find_agent(asked.agent, settings=Path(asked.settings)))
        if asked.kind == "bind":
            book.watch(asked.lease, holder_of(state))
        elif asked.kind == "lease":
            _lend(book, state, asked.door or "cdi", {"gpus": asked.gpu})
        else:
            _prestart(book, state, asked.door)
    except MesosGpuError as error:
        print(f"{HOOK}: {error}", file=sys.stderr)
        return 1
    return 0


def _state(text: str) -> dict[str, Any]:
    try:
        state = json.loads(text)
        return {
            "id": str(state["id"]),
            "pid": int(state["pid"]),
            "bundle": str(state.get("bundle") or state["bundlePath"]),
        }
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"stdin has no OCI state of a container: {error!r}") from None


def read_config(bundle: Path) -> dict[str, Any]:
    """Return the OCI configuration of a bundle. Raises Unavailable."""
    try:
        return dict(json.loads((bundle / "config.json").read_bytes()))
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read the container's configuration: {error}") from None


def holder_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be watched of a container: its first process, and its cgroup where it has one of its own.

    Other processes may outlive the first where the container has the host's process ids.
    """
    pid = int(state["pid"])
    watched: dict[str, Any] = {"pid": pid}
    try:
        memberships = cgroups_of(pid)
    except OSError as error:
        raise Unavailable(f"the cgroup of the container's first process {pid} cannot be read: {error}") from None
    if memberships is None:
        raise Unavailable(f"the container's first process {pid} is gone")
    for one in memberships:
        if str(state["id"]) not in one.path or (one.controllers and "devices" not in one.controllers):
            continue
        mounted = Path("/sys/fs/cgroup") / ("devices" if one.controllers else "") / one.path.lstrip("/")
        if (mounted / "cgroup.procs").exists():
            watched["cgroup"] = str(mounted)
            break
    return watched


def _lend(
    book: Book, state: Mapping[str, Any], door: str, asked: Mapping[str, Any], holder: str = ""
) -> dict[str, Any]:
    who = {"door": door, "holder": holder, "container": state["id"]}
    return book.lend({**who, **asked, **holder_of(state)})


def asked_of(want: Wanted, driver: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the book is asked for."""
    if want.everything:
        return {"gpus": "all"}
    return {"count": want.count} if want.count is not None else {"gpus": resolved(want.names, driver["gpus"])}


def check(want: Wanted, driver: Mapping[str, Any], use: Mapping[str, Any]) -> None:
    """Raise Conflict when the driver, or a GPU that was lent, is not what the image requires."""
    details = {gpu["uuid"]: gpu.get("details") or {} for gpu in driver["gpus"]}
    given = [details.get(gpu["uuid"], {}) for gpu in use.get("gpus", [])]
    check_requirements(want.requirements, driver, given)


def _prestart(book: Book, state: Mapping[str, Any], door: str) -> None:
    from mesos_gpu.doors.oci.injection import Shown, inject, nodes_of
    from mesos_gpu.isolator.access import rule_for
    from mesos_gpu.isolator.device_access import find_device_access

    bundle = Path(state["bundle"])
    config = read_config(bundle)
    requests, name, by = _docker_says(config, str(state["id"]))
    want = wanted(environment_of(config), requests)
    if want is None:
        return
    driver = book.driver()
    check_requirements(want.requirements, driver, ())
    use: Mapping[str, Any] = {"devices": driver["control_devices"], "mounts": driver["mounts"]}
    if want.any:
        use = _lend(book, state, door or by, asked_of(want, driver), name)
    try:
        check(want, driver, use)
        nodes = nodes_of(use["devices"])
        rules = device_rules(config)
        if rules is not None:
            opened = [rule_for(node) for node in nodes]
            find_device_access(int(state["pid"])).change([*rules, *opened], opened, [])
        root = bundle / str((config.get("root") or {}).get("path", "rootfs"))
        shown = [Shown(Path(mount["source"]), mount["destination"]) for mount in use["mounts"]]
        inject(int(state["pid"]), root, nodes, shown, sorted(want.capabilities))
    except (MesosGpuError, OSError) as error:
        if "id" in use:
            book.give_back(str(use["id"]))
        if isinstance(error, MesosGpuError):
            raise
        raise Unavailable(f"the container cannot be given access to its GPUs: {error}") from error


def _docker_says(config: Mapping[str, Any], container: str) -> tuple[list[dict[str, Any]], str, str]:
    """Return what `docker run --gpus` asked for, the container's name, and which engine this is."""
    folder = engine_folder(config, container) if re.fullmatch(r"[0-9a-f]{64}", container) else None
    if folder is None:
        return [], "", "oci"
    try:
        host = json.loads((Path(folder) / "hostconfig.json").read_bytes())
        named = json.loads((Path(folder) / "config.v2.json").read_bytes())
    except (OSError, ValueError):
        return [], "", "oci"
    return list(host.get("DeviceRequests") or []), str(named.get("Name", "")).lstrip("/"), "docker"


if __name__ == "__main__":
    raise SystemExit(main())
