"""Marathon's rules about external volumes: those of a storage system that Docker's volume drivers reach.

Source: Marathon core/externalvolume/impl/providers/DVDIProvider, api/v2/validation/AppValidation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.app_rules import App, volumes, wrong
from mesos_gpu.marathon.definitions.app_settings import AppRules

PREFIX = "dvdi/"
DRIVER = "dvdi/driver"
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_OPTION = re.compile(rf"{_LABEL}/[A-Za-z0-9](?:[-A-Za-z0-9._:]*[A-Za-z0-9])?")


def external_problems(app: App, rules: AppRules) -> Iterator[Problem]:
    """Yield what is wrong with the external volumes of an app."""
    found = [(i, volume) for i, volume in enumerate(volumes(app)) if "external" in volume]
    if not found:
        return
    for index, volume in found:
        path = f"/container/volumes({index})"
        if "external_volumes" not in rules.features and rules.known:
            sentence = "Feature external_volumes is not enabled. Enable with --enable_features external_volumes"
            yield wrong(path, sentence)
        yield from _volume(path, volume, docker=app["container"]["type"] == "DOCKER")
    if app["instances"] > 1:
        yield wrong("/instances", "Number of instances is limited to 1 when declaring DVDI volumes in app")
    if app["upgradeStrategy"]["maximumOverCapacity"] != 0:
        yield wrong("/upgradeStrategy/maximumOverCapacity", "must be 0 for an app with external volumes")


def name_conflicts(apps: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Return a problem for every external volume that two apps want; those that say `shared` may be wanted by many.

    `apps` are the documents of all apps there are to be, by id.
    """
    users: dict[str, list[str]] = {}
    for app_id, app in sorted(apps.items()):
        wanted = [v["external"] for v in volumes(dict(app)) if "external" in v]
        for name in dict.fromkeys(external["name"] for external in wanted if not external["shared"]):
            users.setdefault(name, []).append(app_id)
    found = []
    for name, ids in users.items():
        for app_id in ids if len(ids) > 1 else ():
            others = ", ".join(other for other in ids if other != app_id)
            sentence = f"Volume name '{name}' in {app_id} conflicts with volume(s) of same name in app(s): {others}"
            found.append(Problem(f"/apps/{app_id}/container/volumes", sentence, sentence, "give it another name"))
    return found


def _volume(path: str, volume: Mapping[str, Any], *, docker: bool) -> Iterator[Problem]:
    external = volume["external"]
    provider, options = external.get("provider"), external.get("options") or {}
    if provider is None:
        yield wrong(f"{path}/external/provider", "an external volume needs a provider", 'write "dvdi"')
    elif provider == "csi":
        yield wrong(f"{path}/external/provider", "volumes of csi are not supported by this Marathon", 'use "dvdi"')
    elif provider != "dvdi":
        yield wrong(f"{path}/external/provider", "is unknown provider", 'use "dvdi"')
    if not external.get("name"):
        yield wrong(f"{path}/external/name", "must not be empty", "name the volume as its storage system does")
    if volume["containerPath"] in (".", ".."):
        yield wrong(f"{path}/containerPath", "must not be . or ..")
    if not docker and volume.get("mode", "RW") != "RW":
        yield wrong(f"{path}/mode", "must be RW with the Mesos containerizer")
    if docker and ("size" in external or options.keys() - {DRIVER}):
        yield wrong(f"{path}/external", f"the Docker containerizer takes no size, and no option but {DRIVER}")
    if provider == "dvdi":
        driver = options.get(DRIVER)
        if not isinstance(driver, str) or not re.fullmatch(_LABEL, driver):
            yield wrong(f'{path}/external/options("{DRIVER}")', "not defined, or not the name of a driver")
    for key, value in options.items():
        if not _OPTION.fullmatch(key) or not isinstance(value, str):
            yield wrong(f"{path}/external/options", f"{key!r} is not an option with a text as its value")
