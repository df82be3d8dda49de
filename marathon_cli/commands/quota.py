"""`mesos-gpu quota list, set, remove`: how much of the cluster a role may have, GPUs too, by the master's own calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Column, Table

if TYPE_CHECKING:
    _ParamType = click.ParamType[float | str]
else:
    _ParamType = click.ParamType  # generic only in later versions of click

_NAMES = ("gpus", "cpus", "mem", "disk")
_NONE = "none"


class _Amount(_ParamType):
    """A number, 0 or more, or `none`."""

    name = "amount"

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Read it."""
        if value == _NONE:
            return _NONE
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e15 or (self._whole and number != int(number)):
            kind = "a whole number" if self._whole else "a number"
            self.fail(f"{value!r} is neither {kind}, 0 or more, nor `none`", param, ctx)
        return number


@click.command(name="list")
@output_options()
@target_options
@pass_console
def list_quotas(console: Console) -> None:
    """List what roles have, their limits and their guarantees."""
    found = console.mesos().ask_master("/roles", missing={})
    roles = [role for role in (found.get("roles") or [] if isinstance(found, dict) else []) if _is_worth_a_line(role)]
    rows = [_row(role) for role in roles]
    table = Table(
        (
            Column("ROLE"),
            Column("GPUS", number=True),
            Column("CPUS", number=True),
            Column("MEM", number=True),
            Column("DISK", number=True, rank=2),
            Column("GUARANTEED", rank=1),
        ),
        rows,
    )
    none = "no role has a quota, or anything else; `mesos-gpu quota set ROLE --gpus N` limits one"
    console.show(roles, table=lambda: table, names=[str(role.get("name")) for role in roles], none=none)


@click.command(name="set")
@click.argument("role", metavar="ROLE")
@click.option("--gpus", type=_Amount(whole=True), metavar="N", help="GPUs at most; `none` for no limit.")
@click.option("--cpus", type=_Amount(), metavar="N", help="CPUs at most.")
@click.option("--mem", type=_Amount(), metavar="MIB", help="Memory at most, in MiB.")
@click.option("--disk", type=_Amount(), metavar="MIB", help="Disk at most, in MiB.")
@click.option("--guarantee", is_flag=True, help="Guarantee the role as much, too: others are not offered it.")
@click.option("--force", is_flag=True, help="Also when the cluster has less than is guaranteed.")
@output_options()
@target_options
@pass_console
def set_quota(console: Console, /, role: str, guarantee: bool, force: bool, **amounts: float | str | None) -> None:
    """Limit how much of the cluster ROLE may have; what is not named stays as it is.

    \b
      mesos-gpu quota set team-a --gpus 4
      mesos-gpu quota set team-a --gpus 2 --cpus 8 --guarantee
      mesos-gpu quota set team-a --mem none
    """
    given = {name: value for name, value in amounts.items() if value is not None}
    if not given:
        raise click.UsageError("say how much: --gpus, --cpus, --mem or --disk")
    mesos = console.mesos()
    before = _quota(mesos.ask_master("/roles", missing={}), role)
    limits, guarantees = dict(before.get("limit") or {}), dict(before.get("guarantee") or {})
    for name, value in given.items():
        for part in (limits, guarantees) if guarantee or value == _NONE else (limits,):
            part.pop(name, None)
            if value != _NONE:
                part[name] = value
    config = {"role": role, "guarantees": _scalars(guarantees), "limits": _scalars(limits)}
    mesos.operate({"type": "UPDATE_QUOTA", "update_quota": {"force": force, "quota_configs": [config]}})
    said = ", ".join(f"{name} {limits[name]:g}" for name in _NAMES if name in limits) or "as much as there is"
    console.tell(
        f"{role} may have at most: {said}", {"role": role, "limits": limits, "guarantees": guarantees}, names=[role]
    )


@click.command(name="remove")
@click.argument("role", metavar="ROLE")
@output_options()
@target_options
@pass_console
def remove_quota(console: Console, role: str) -> None:
    """Remove the quota of ROLE: its limits and its guarantees."""
    call = {"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [{"role": role}]}}
    console.mesos().operate(call)
    console.tell(f"{role} has no quota any more", {"role": role}, names=[role])


def _quota(found: Any, role: str) -> Mapping[str, Any]:
    roles = found.get("roles") or [] if isinstance(found, dict) else []
    return next((one.get("quota") or {} for one in roles if one.get("name") == role), {})


def _scalars(amounts: Mapping[str, float]) -> dict[str, dict[str, float]]:
    return {name: {"value": value} for name, value in amounts.items()}


def _is_worth_a_line(role: Mapping[str, Any]) -> bool:
    quota = role.get("quota") or {}
    return any(any((quota.get(part) or {}).values()) for part in ("guarantee", "consumed")) or bool(quota.get("limit"))


def _row(role: Mapping[str, Any]) -> list[object]:
    """Each amount is what it has, of how much where there is a limit."""
    quota = role.get("quota") or {}
    has, limit = quota.get("consumed") or {}, quota.get("limit") or {}
    cells = [
        f"{float(has.get(name) or 0):g}" + (f"/{float(limit[name]):g}" if name in limit else "") for name in _NAMES
    ]
    sure = [f"{name} {float(value):g}" for name, value in (quota.get("guarantee") or {}).items() if value]
    return [role.get("name"), *cells, ", ".join(sure) or "---"]
