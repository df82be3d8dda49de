"""The agent shows the master who it is before it registers, where it was given a credential.

Source: Mesos src/slave/slave.cpp (authenticate, _authenticate), src/authentication/cram_md5/authenticatee.cpp.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from msgspec import Struct

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.security.cram_md5 import Credential, Progress, authenticatee
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)

_PREFIX = "mesos.internal."


class Patience(Struct, frozen=True):
    """How long one try may take: uniform in `[min_s, min_s + factor_s * 2^tries]`, at most `max_s`."""

    min_s: float = 5.0
    max_s: float = 60.0
    factor_s: float = 1.0

    def bound_s(self, tries: int) -> float:
        """Return the longest a try may take after so many that failed."""
        return max(self.min_s, min(self.min_s + self.factor_s * 2.0 ** min(tries, 16), self.max_s))


class Authentication:
    """Authenticates one agent, again for each master and each new beginning with it.

    `on_done()` is called once the master knows us, `on_refused(words)` when it says that it never will.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        credential: Credential,
        agent: Callable[[], Pid],
        *,
        on_done: Callable[[], None],
        on_refused: Callable[[str], None],
        patience: Patience | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._endpoint, self._credential, self._agent = endpoint, credential, agent
        self._on_done, self._on_refused = on_done, on_refused
        self._patience, self._dice = patience or Patience(), dice
        self._made = self._tries = 0
        self._master: Pid | None = None
        self._process: str | None = None
        self._progress = Progress.ASKED
        self._timer: asyncio.TimerHandle | None = None
        self.done = False

    def forget(self) -> None:
        """The master may have forgotten us: the next `begin` authenticates again."""
        self._hang_up()
        self.done, self._master, self._tries = False, None, 0

    def begin(self, master: Pid) -> None:
        """Authenticate with a master, unless that is done or under way."""
        if master == self._master and (self.done or self._process is not None or self._timer is not None):
            return
        if master != self._master:
            self.forget()
        self._master = master
        self._try(master)

    def close(self) -> None:
        """Take no more messages."""
        self.forget()

    def _try(self, master: Pid) -> None:
        self._hang_up()
        self._made += 1
        self._progress, self._process = Progress.ASKED, f"crammd5-authenticatee({self._made})"
        self._endpoint.spawn(self._process, self._on_message)
        self._send(master, "AuthenticateMessage", {"pid": str(self._agent())})
        least_s, most_s = self._patience.min_s, self._patience.bound_s(self._tries)
        delay_s = least_s + (most_s - least_s) * self._dice()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._again, "no answer in time")

    def _again(self, why: str) -> None:
        master = self._master
        log.warning("could not authenticate with %s: %s", master, why)
        self._tries += 1
        if master is not None:
            self._try(master)

    def _hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._process is not None:
            self._endpoint.terminate(self._process)
            self._process = None

    def _on_message(self, message: Message) -> None:
        name = message.name.removeprefix(_PREFIX)
        if self._master is None or message.sender.address != self._master.address:
            log.warning("ignoring %s from %s, which is not our master", name, message.sender)
            return
        try:
            said = authenticatee(self._progress, self._credential, name, decode(message.name, message.body))
        except ProtocolError as error:
            log.warning("ignoring a message from %s: %s", message.sender, error)
            return
        self._progress = said.progress
        if said.name is not None:
            self._send(message.sender, said.name, said.document)
        if said.progress is Progress.DONE:
            self._hang_up()
            self.done = True
            log.info("authenticated with %s as %s", self._master, self._credential.principal)
            self._on_done()
        elif said.progress is Progress.REFUSED:
            self._hang_up()
            self._on_refused(f"the master at {self._master} refused to authenticate {self._credential.principal}")
        elif said.progress is Progress.BROKEN:
            self._hang_up()
            # Mesos tries again at once; a master that cannot authenticate at all would be asked without a pause.
            delay_s = self._patience.bound_s(self._tries) * self._dice()
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._again, said.why)

    def _send(self, to: Pid, name: str, document: dict[str, str]) -> None:
        assert self._process is not None
        self._endpoint.send(self._process, to, _PREFIX + name, encode(_PREFIX + name, document))
