"""What is saved, as rows that any store can keep: a kind, a key, a version where it has several, and JSON. Pure.

A new kind of thing that lasts needs a line here, and in `Save` and `Lasting`; no store has to know of it. The kinds are
named as Marathon's are in ZooKeeper (storage/repository/*.scala).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.deployment import Deployment
from mesos_gpu.marathon.model.groups import ROOT, Root
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.model.jobs import Job
from mesos_gpu.marathon.model.usage import Period, RunTimes, Sum
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.mesos.ids import FrameworkId

T = TypeVar("T")

APPS, GROUPS, INSTANCES = "apps", "group", "instance"
DEPLOYMENTS, FAILURES, FRAMEWORK_ID, JOBS = "deployment", "taskFailures", "framework-id", "job"
USAGE, USAGE_OPEN, COUNTED_UNTIL, RUN_TIMES = "usage", "usageOpen", "usageCounted", "runTimes"

KINDS = (
    *(APPS, GROUPS, INSTANCES, DEPLOYMENTS, FAILURES, FRAMEWORK_ID, JOBS),
    *(USAGE, USAGE_OPEN, COUNTED_UNTIL, RUN_TIMES),
)
VERSIONED = frozenset({APPS, GROUPS})
"""Kinds of which each key has several versions; a store keeps as many of the newest as it is told to."""
_THE_ONE = "id"


class Row(Struct, frozen=True):
    """One thing that lasts. `version` is empty where the kind has none.

    `document` is None for what is to be forgotten; of a versioned kind, that is the key with all its versions.
    """

    kind: str
    key: str
    version: str
    document: bytes | None


def rows_of(save: Save) -> Iterator[Row]:
    """Return what is to be written: definitions first, then deployments, then what runs."""
    for app_id, spec in save.apps.items():
        version = "" if spec is None else spec.version
        yield Row(APPS, app_id, version, None if spec is None else msgspec.json.encode(spec.document))
    if save.root is not None:
        yield Row(GROUPS, ROOT, save.root.version, msgspec.json.encode(save.root))
    yield from _plain(JOBS, save.jobs)
    yield from _plain(DEPLOYMENTS, save.deployments)
    yield from _plain(FAILURES, save.failures)
    yield from _plain(INSTANCES, save.instances)
    if save.framework_id is not None:
        yield from _plain(FRAMEWORK_ID, {_THE_ONE: save.framework_id[0]})
    yield from _plain(USAGE, save.usage)
    yield from _plain(USAGE_OPEN, save.usage_open)
    yield from _plain(RUN_TIMES, save.run_times)
    if save.counted_until_s is not None:
        yield from _plain(COUNTED_UNTIL, {_THE_ONE: save.counted_until_s})


def lasting_of(rows: Iterable[Row]) -> Lasting:
    """Return what the rows hold; they come in the order in which their keys were first written.

    Raises msgspec.MsgspecError when a document is not what its kind says.
    """
    found: dict[str, dict[str, dict[str, bytes]]] = {kind: {} for kind in KINDS}
    for row in rows:
        if row.document is not None and row.kind in found:
            found[row.kind].setdefault(row.key, {})[row.version] = row.document
    roots = [msgspec.json.decode(each, type=Root) for each in found[GROUPS].get(ROOT, {}).values()]
    framework_id, counted = found[FRAMEWORK_ID].get(_THE_ONE), found[COUNTED_UNTIL].get(_THE_ONE)
    return Lasting(
        framework_id=None if framework_id is None else msgspec.json.decode(framework_id[""], type=FrameworkId),
        versions=Table(
            {
                app_id: tuple(RunSpec(msgspec.json.decode(kept[version])) for version in sorted(kept, reverse=True))
                for app_id, kept in found[APPS].items()
            }
        ),
        instances=_read(found[INSTANCES], Instance),
        deployments=_read(found[DEPLOYMENTS], Deployment),
        failures=Table({key: msgspec.json.decode(each[""]) for key, each in found[FAILURES].items()}),
        roots=tuple(sorted(roots, key=lambda root: root.version, reverse=True)),
        jobs=_read(found[JOBS], Job),
        usage=_read(found[USAGE], Period),
        usage_open=_read(found[USAGE_OPEN], Sum),
        run_times=_read(found[RUN_TIMES], RunTimes),
        counted_until_s=None if counted is None else msgspec.json.decode(counted[""], type=float),
    )


def saves_of(lasting: Lasting) -> list[Save]:
    """Return what writes all of this into an empty store."""
    saves = [Save({app_id: spec}, {}, {}, {}) for app_id, kept in lasting.versions.items() for spec in reversed(kept)]
    saves += [Save({}, {}, {}, {}, root=root) for root in reversed(lasting.roots)]
    framework_id = None if lasting.framework_id is None else (lasting.framework_id,)
    plain = Save(
        {},
        lasting.instances,
        lasting.deployments,
        lasting.failures,
        framework_id,
        jobs=lasting.jobs,
        usage=lasting.usage,
        usage_open=lasting.usage_open,
        run_times=lasting.run_times,
        counted_until_s=lasting.counted_until_s,
    )
    return [*saves, plain]


def _read(rows: Mapping[str, Mapping[str, bytes]], kind: type[T]) -> Table[T]:
    return Table({key: msgspec.json.decode(each[""], type=kind) for key, each in rows.items()})


def _plain(kind: str, things: Mapping[str, Any]) -> Iterator[Row]:
    for key, thing in things.items():
        yield Row(kind, key, "", None if thing is None else msgspec.json.encode(thing))
