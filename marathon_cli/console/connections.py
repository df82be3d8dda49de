"""From what was set to clients: the Marathon, the master and the agents that are meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marathon_cli.connection.access import Access
from marathon_cli.connection.box import default_work_dir, find_marathon
from marathon_cli.connection.profiles import ProfileStore
from marathon_cli.connection.settings import Settings
from marathon_cli.screen.output import say

if TYPE_CHECKING:
    from marathon_cli.clients.client import Marathon
    from marathon_cli.clients.sandbox import Mesos


@dataclass
class Connections:
    """What one run of the program talks to.

    `options` are settings given as options; `work_dir` is --work_dir and means the box there, whatever variables and
    profiles say of servers.
    """

    options: Mapping[str, str]
    profile: str | None = None
    work_dir: Path | None = None
    environ: Mapping[str, str] | None = None

    @cached_property
    def settings(self) -> Settings:
        """Return what is set. Raises BadInput, NotFound and Unavailable for profiles that cannot be used."""
        environ = os.environ if self.environ is None else self.environ
        if self.work_dir is not None:
            return Settings.of(self.options, {}, {}, "")
        store = ProfileStore.of(environ)
        named = self.profile or environ.get("MESOS_GPU_PROFILE")
        name = named or (store.read().use if store.config.exists() else None)
        profile = {} if name is None else store.profile(name)
        return Settings.of(self.options, environ, profile, name or "", profile_named=self.profile is not None)

    @cached_property
    def access(self) -> Access:
        """Return how servers are reached; that certificates are not checked is said, once. Raises BadInput."""
        access = self.settings.access()
        if access.insecure:
            say("warning: certificates are not checked: anybody between here and the server can read along")
        return access

    def marathon(self) -> Marathon:
        """Return a client of Marathon. Raises Unavailable when none is named and no box runs, BadInput."""
        from marathon_cli.clients.client import Marathon

        named, access = self.settings.marathon(), self.access
        if named is not None:
            return Marathon(named.value, named_by=named.source, access=access, find_mesos=self.mesos)
        work_dir = self.work_dir or default_work_dir(os.environ if self.environ is None else self.environ)
        # The box asks for nothing and is this machine's: credentials that were set beside no URL are not for it.
        url, source = find_marathon(work_dir), f"the box in {work_dir}"
        return Marathon(url, named_by=source, access=access.anonymous(), find_mesos=self.mesos)

    def mesos(self, marathon: Marathon | None = None) -> Mesos:
        """Return a client of the master and its agents: the master named, else the one that Marathon names.

        Raises Unavailable, BadInput.
        """
        from marathon_cli.clients.sandbox import Mesos

        named, agents, _ = self.settings.master(), self.settings.agents(), self.access
        info: Mapping[str, Any] = {}
        if named is None:
            asked = marathon or self.marathon()
            info = asked.told()
            if marathon is None:
                asked.close()
        return Mesos(
            info,
            url=None if named is None else named.value,
            access_to=self.settings.mesos_access,
            agent_url=None if agents is None else agents.value,
        )
