"""From what was set to clients: the Marathon, the master and the agents that are meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marathon_cli.connection.access import Access, addresses, origin
from marathon_cli.connection.box import BoxLogin, box_login, find_marathon, found_work_dir
from marathon_cli.connection.profiles import ProfileStore
from marathon_cli.connection.settings import Settings
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Marathon
    from marathon_cli.clients.mesos import Mesos


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
            say("warning: certificates are not verified: anyone in between can read the traffic")
        return access

    def marathon(self) -> Marathon:
        """Return a client of Marathon. Raises Unavailable when none is named and no box runs, BadInput."""
        from marathon_cli.clients.marathon import Marathon

        named, access = self.settings.marathon(), self.access
        if named is not None:
            access = self._with_box_login(named.value, access)
            return Marathon(named.value, named_by=named.source, access=access, find_mesos=self.mesos)
        # The box is this machine's: credentials that were set beside no URL are not for it.
        url, source = find_marathon(self.box_dir), f"the box in {self.box_dir}"
        access = self._with_box_login(url, access.anonymous())
        return Marathon(url, named_by=source, access=access, find_mesos=self.mesos)

    def box_in_use(self) -> tuple[str, str] | None:
        """Return the URL of Marathon in this machine's box, and where it is from, if that is what commands speak to."""
        if self.settings.marathon() is not None:
            return None
        try:
            return find_marathon(self.box_dir), f"the box in {self.box_dir}"
        except Unavailable:
            return None

    @property
    def box_dir(self) -> Path:
        """Return the work_dir of the box that is meant where no server is named."""
        return self.work_dir or found_work_dir(os.environ if self.environ is None else self.environ)

    @cached_property
    def _box(self) -> BoxLogin | None:
        return box_login(self.box_dir)

    def box_login_of(self, url: str) -> tuple[str, Path] | None:
        """Return the name that this machine's box asks for, and the file of its password; None of other servers."""
        return None if self._box is None or url not in self._box.urls else (self._box.name, self._box.file)

    def box_authorization(self) -> str | None:
        """Return the Authorization header that lets us into this machine's box, None where it asks for none."""
        return None if self._box is None else Access(user=self._box.name, password=self._box.secret).authorization

    def _with_box_login(self, url: str, access: Access) -> Access:
        """Return the access with this machine's box's credential, where the URL is the box's and no other was set."""
        if access.authorization is not None or self._box is None:
            return access
        try:
            ours = all(
                any(one.origin == origin(known) for known in self._box.urls) for one in addresses(url, what="server")
            )
        except BadInput:
            return access  # whoever uses the URL says what is wrong with it
        return replace(access, user=self._box.name, password=self._box.secret) if ours else access

    def mesos(self, marathon: Marathon | None = None) -> Mesos:
        """Return a client of the master and its agents: the master named, else the one that Marathon names.

        Raises Unavailable, BadInput.
        """
        from marathon_cli.clients.mesos import Mesos

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
            access_to=lambda where: self._with_box_login(where, self.settings.mesos_access(where)),
            agent_url=None if agents is None else agents.value,
        )
