"""`mesos-gpu config`: profiles, which are servers and credentials under a name."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from marathon_cli.connection.profiles import DEFAULT, ProfileStore
from marathon_cli.connection.settings import KEYS, key_named, shown
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Column, Table, columns, say
from mesos_gpu.errors import BadInput


@click.command(name="set")
@click.argument("key", metavar="KEY")
@click.argument("value", metavar="[VALUE]", required=False)
@target_options
@pass_console
def set_(console: Console, key: str, value: str | None) -> None:
    """Set KEY to VALUE in a profile.

    The profile is that of --profile, else the one in use, else `default`, which is in use at once; one that --profile
    names is made if it is not there, and in use when `config use` says so. Without VALUE it is read from standard
    input (secrets: typed unseen), so that it does not stay in the shell's history. `mesos-gpu config keys` lists the
    keys.
    """
    store = _store()
    known = key_named(key)
    before = store.read()
    name = console.profile or before.use or DEFAULT
    if value is None and sys.stdin.isatty():
        value = click.prompt(f"{known.name} of profile {name}", hide_input=known.secret, err=True)
    store.set(name, known.name, sys.stdin.readline().strip() if value is None else value)
    if before.use is None and not before.profiles:
        if console.profile is None:
            store.use(name)
            say(f"profile {name} is in use now")
        else:
            say(f"`mesos-gpu config use {name}` has it used without --profile")


@click.command(name="unset")
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--all", "everything", is_flag=True, help="Remove the whole profile.")
@target_options
@pass_console
def unset(console: Console, key: str | None, everything: bool) -> None:
    """Remove KEY from a profile, or the whole profile.

    The profile is that of --profile, else the one in use.
    """
    if (key is None) != everything:
        raise click.UsageError("give a KEY, or --all to remove the profile")
    store = _store()
    name = console.profile or store.read().use
    if name is None:
        raise BadInput("no profile is in use; name one with --profile")
    store.unset(name, key)


@click.command(name="use")
@click.argument("name", metavar="[PROFILE]", required=False)
@click.option("--none", is_flag=True, help="Use no profile.")
def use(name: str | None, none: bool) -> None:
    """Use PROFILE from now on."""
    if (name is None) != none:
        raise click.UsageError("give a PROFILE, or --none")
    _store().use(name)


@click.command(name="list")
@output_options()
@target_options
@pass_console
def list_profiles(console: Console) -> None:
    """List the profiles."""
    found = _store().read()
    shown = [
        {"name": name, "in_use": name == found.use, **_shown(settings)}
        for name, settings in sorted(found.profiles.items())
    ]

    def table() -> Table:
        rows = [
            [
                "*" if one["in_use"] else "",
                one["name"],
                one.get("marathon-url") or one.get("dcos-url") or "---",
                one.get("user") or ("token" if "token" in one else "---"),
            ]
            for one in shown
        ]
        return Table((Column(""), Column("PROFILE"), Column("URL", cut=True), Column("USER")), rows)

    none = "no profiles; `mesos-gpu config set --profile NAME marathon-url URL` makes one"
    console.show(shown, table=table, names=sorted(found.profiles), none=none)


@click.command()
@click.argument("name", metavar="[PROFILE]", required=False)
@output_options()
@target_options
@pass_console
def show(console: Console, name: str | None) -> None:
    """Show which settings count now and where each is from; or those of PROFILE.

    The box of this machine is among them where no other Marathon is named. Secrets are shown as asterisks.
    """
    if name is not None:
        settings = [
            {"key": key, "value": value, "source": f"profile {name}"}
            for key, value in _shown(_store().profile(name)).items()
        ]
    else:
        found = console.connections().settings.values
        values = _shown({key: setting.value for key, setting in sorted(found.items())})
        settings = [{"key": key, "value": value, "source": found[key].source} for key, value in values.items()]
        if (box := console.connections().box_in_use()) is not None:
            settings.insert(0, {"key": "marathon-url", "value": box[0], "source": box[1]})
    rows = [[one["key"], one["value"], one["source"]] for one in settings]
    table = Table((Column("KEY"), Column("VALUE", cut=True), Column("SOURCE")), rows)
    console.show(settings, table=lambda: table, names=[one["key"] for one in settings])


@click.command()
@output_options()
@target_options
@pass_console
def keys(console: Console) -> None:
    """List the keys that can be set, and the variable of each."""
    shown = [{"key": key.name, "variable": key.variable, "secret": key.secret, "help": key.help} for key in KEYS]
    rows = [[key.name, key.variable, key.help] for key in KEYS]
    console.show(
        shown, table=lambda: Table(columns("KEY", "VARIABLE", "WHAT IT IS"), rows), names=[key.name for key in KEYS]
    )


def _store() -> ProfileStore:
    return ProfileStore.of(os.environ)


def _shown(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: shown(key, value) for key, value in settings.items()}
