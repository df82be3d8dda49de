"""`mesos-gpu app update`: what is there, what is asked for, the difference, and then the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from marathon_cli.api.apps import Apps
from marathon_cli.changes import rules
from marathon_cli.changes.advance_warnings import caution
from marathon_cli.changes.change_target import ChangeTarget
from marathon_cli.changes.changes import finish
from marathon_cli.changes.updating import Order, agreed, read_wish, refuse_new_problems, update_command
from marathon_cli.changes.versions import resolve_version
from marathon_cli.clients.client import Marathon
from marathon_cli.console.console import Console
from marathon_cli.document import definitions
from marathon_cli.screen.names import app_id, hints
from marathon_cli.screen.output import say
from mesos_gpu.errors import Conflict, InvalidApp, Problem
from mesos_gpu.marathon.definitions.app import read_app, unknown_keys
from mesos_gpu.marathon.definitions.app_schema import APP
from mesos_gpu.marathon.definitions.app_settings import AppRules


@update_command(click.argument("name", metavar="APP"))
def update(console: Console, name: str, order: Order) -> None:
    """Change APP by KEY=VALUE, by a file, or by both.

    \b
      mesos-gpu app update train instances=3 env.MODE=fast
      mesos-gpu app update train container.docker.image=train:2 --wait --rollback-on-failure
      mesos-gpu app update train labels.old=null
      mesos-gpu app update train --file train.yaml --diff --yes

    Keys may lead inwards, and what is not named stays; null takes a key away. `version=...` goes back to an
    earlier version (-1 is the one before). On a terminal the difference is shown first.
    """
    wanted = app_id(name)
    wish = read_wish(order, APP.schema, wanted, canonical=app_id)
    marathon = console.marathon()
    with hints(wanted, marathon.app_ids):
        current = marathon.app(wanted)
    before = definitions.editable(current)
    if (text := wish.only_version) is not None:
        version = resolve_version(marathon, wanted, text)
        after = definitions.editable(Apps(marathon).version(wanted, version))
        body, partial = {"version": version}, True
    else:
        after = wish.applied(before, older_forms=definitions.OLDER_FORMS)
        if not order.no_validate:
            known = rules.rules_of(marathon.info())
            refuse_new_problems(lambda app: _problems(app, known), wish.source, before, after)
        body, partial = definitions.to_send(before, after)
    means = definitions.consequence(before, after)
    if after != before and not order.no_validate:
        caution(marathon, {"id": wanted, **after}, say)
    if not agreed(console, wanted, before, after, means, order.consent):
        return
    _guard(marathon, wanted, current)
    with rules.explained(wish.source, dict(wish.asked), rules.OFFLINE, marathon.url):
        change = Apps(marathon).put(wanted, body, force=order.force, partial=partial)
    sentence = f"changes {wanted}: {means}"
    finish(console, marathon, change, [ChangeTarget("app", wanted)], sentence, order.waiting, value={"id": wanted})


def _problems(app: Mapping[str, Any], rules: AppRules) -> list[Problem]:
    found = unknown_keys(app)
    try:
        read_app(app, rules)
    except InvalidApp as error:
        found += error.problems
    return found


def _guard(marathon: Marathon, name: str, seen: Mapping[str, Any]) -> None:
    """Raise Conflict when somebody else has changed the app since we looked: Marathon itself would not notice."""
    if marathon.app(name).get("version") != seen.get("version"):
        raise Conflict(f"{name} was changed by somebody else meanwhile; nothing was done. Look at it and try again")
