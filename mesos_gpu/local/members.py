"""Members of a group who are let into a box: what they may do there, and where their way in lies. Pure.

Each has a Marathon of his own, which runs tasks as him; the master's and the agents' lists (`--acls`) see to it that it
runs nothing as anybody else, and that he looks at, and enters, what runs as him alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.mesos.security.authorization import ACTIONS, ENDPOINTS, PRINCIPALS

FOLDER = "members"
"""In the work_dir: a folder for each member, with files that he alone can read."""
SECRET, NETRC = "secret", "netrc"
MARATHON_OF = "marathon-of-"
"""Begins the name of a member's Marathon, as a principal and among the services."""
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
"""What useradd takes; it also names a role, a principal and a folder."""
_ANY: Mapping[str, str] = {"type": "ANY"}
_OF_HIS_TASKS = (
    "view_frameworks",
    "view_tasks",
    "view_executors",
    "view_containers",
    "access_sandboxes",
    "attach_containers_input",
    "attach_containers_output",
    "launch_nested_containers_as_user",
    "launch_nested_containers_under_parent_with_user",
    "launch_nested_container_sessions_as_user",
    "launch_nested_container_sessions_under_parent_with_user",
    "kill_nested_containers",
    "wait_nested_containers",
    "remove_nested_containers",
)
_OF_HIS_ROLE = ("view_roles", "get_quotas")
_SHOWN = ("/containers", "/monitor/statistics")
"""Endpoints that are filtered by whose containers may be seen."""
_BY_HIS_MARATHON = ("register_frameworks", "reserve_resources", "create_volumes", "resize_volumes")


def may_be_member(name: str, owner: str, owners_principals: Sequence[str]) -> bool:
    """Tell whether a user can be a member: not root, not the box's owner, and of no name that means another."""
    taken = name in ("root", owner, *owners_principals) or name.startswith(MARATHON_OF)
    return not taken and _NAME.fullmatch(name) is not None


def marathon_of(member: str) -> str:
    """Return the principal of a member's Marathon, which is its name among the services, too."""
    return f"{MARATHON_OF}{member}"


def folder_of(work_dir: Path, member: str) -> Path:
    """Return where a member's way in lies."""
    return work_dir / FOLDER / member


def lists(members: Iterable[str], owners_principals: Sequence[str]) -> dict[str, Any]:
    """Return the --acls of a box that lets these members in: what nobody is said to be allowed, nobody is.

    Agents register without a principal (`--same_user_peers` tells whose programs they are).
    """
    found: dict[str, Any] = {"permissive": False}
    for action, (objects, _) in ACTIONS.items():
        found[action] = [{PRINCIPALS: {"values": list(owners_principals)}, objects: _ANY}]
    found["register_agents"] = [{PRINCIPALS: _ANY, "agents": _ANY}]
    for member in members:
        his, his_marathon = {"values": [member]}, {"values": [marathon_of(member)]}
        for action in _OF_HIS_TASKS:
            found[action].append({PRINCIPALS: his, "users": his})
        for action in _OF_HIS_ROLE:
            found[action].append({PRINCIPALS: his, "roles": his})
        found["get_endpoints"].append({PRINCIPALS: his, "paths": {"values": [p for p in ENDPOINTS if p in _SHOWN]}})
        found["run_tasks"].append({PRINCIPALS: his_marathon, "users": his})
        for action in _BY_HIS_MARATHON:
            found[action].append({PRINCIPALS: his_marathon, "roles": his})
        found["unreserve_resources"].append({PRINCIPALS: his_marathon, "reserver_principals": his_marathon})
        found["destroy_volumes"].append({PRINCIPALS: his_marathon, "creator_principals": his_marathon})
    return found


def hint(work_dir: Path, member: str) -> str:
    """Return what a member's Marathon says to somebody whom it does not know."""
    folder = folder_of(work_dir, member)
    return (
        f"This Marathon is {member}'s, and asks for what lies in {folder}. mesos-gpu finds it by itself. "
        f"curl: --netrc-file {folder}/{NETRC}. A browser: the name {member}, the password what {folder}/{SECRET} has."
    )
