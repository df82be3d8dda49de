"""The agent's book over HTTP, with the standard library alone: hooks have to start fast."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mesos_gpu.errors import BadInput, Refused, Unavailable

USUAL_AGENT = "http://127.0.0.1:5051"
VARIABLE = "MESOS_GPU_AGENT"
SETTINGS = Path("/etc/mesos-gpu/doors.json")
TIMEOUT_S = 10.0
SUSPENDING_S = 1800.0
"""For so long an agent may be at work that puts what is on GPUs away, or back: 80 GB each way at 1 GB/s and less, after
the kernels of each process have ended, and back again where the driver refuses.
"""


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """Where the agent of this machine answers, and with whose secret to ask it.

    `credential` is a file with `PRINCIPAL SECRET` in a line, or a netrc file of one machine; `ca` is one with
    certificates to believe.
    """

    url: str = USUAL_AGENT
    credential: str = ""
    ca: str = ""


def find_agent(url: str | None = None, *, settings: Path = SETTINGS) -> AgentAddress:
    """Return where to ask: `url`, else the variable MESOS_GPU_AGENT, else the file of settings, else the usual port.

    Raises BadInput when the file of settings is none.
    """
    try:
        found = json.loads(settings.read_bytes())
        address = AgentAddress(
            str(found.get("agent", USUAL_AGENT)), str(found.get("credential", "")), str(found.get("ca", ""))
        )
    except FileNotFoundError:
        address = AgentAddress()
    except (OSError, ValueError, AttributeError) as error:
        raise BadInput(f"{settings} does not say where the agent is: {error}") from None
    return AgentAddress(url or os.environ.get(VARIABLE) or address.url, address.credential, address.ca)


class Book:
    """What an agent is asked for. Each call raises Refused with the agent's words, or Unavailable when it is silent."""

    def __init__(self, address: AgentAddress) -> None:
        self.address = address
        self._parts = urlsplit(address.url)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise BadInput(f"'{address.url}' is not the address of an agent; write http://127.0.0.1:5051")

    def lend(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new lease, with what its container needs."""
        return dict(self._ask("POST", "/gpus/leases", asked))

    def watch(self, lease_id: str, more: Mapping[str, Any]) -> dict[str, Any]:
        """Have more of a holder watched; return the lease."""
        return dict(self._ask("PUT", f"/gpus/leases/{lease_id}", more))

    def give_back(self, lease_id: str) -> None:
        """End a lease; one that has ended already is not an error."""
        try:
            self._ask("DELETE", f"/gpus/leases/{lease_id}")
        except Refused as refused:
            if refused.status != 404:
                raise

    def leases(self) -> list[dict[str, Any]]:
        """Return every lease."""
        return list(self._ask("GET", "/gpus/leases"))

    def shares(self) -> list[dict[str, Any]]:
        """Return the cards that tasks share, and who has which part."""
        return list(self._ask("GET", "/gpu_shares"))

    def suspending(self, what: str, container_id: str) -> list[dict[str, Any]]:
        """`suspend` or `resume` a container with what it has on GPUs; return those that are suspended then."""
        return list(self._ask("POST", f"/gpus/{what}", {"container_id": container_id}, timeout_s=SUSPENDING_S))

    def divide(self, gpu: str, profiles: str, *, plan: bool) -> dict[str, Any]:
        """Divide a GPU into MIG instances, or only plan that; return what stays, is ended and is made."""
        return dict(self._ask("POST", "/gpus/mig", {"gpu": gpu, "profiles": profiles, "plan": plan}))

    def set_share(self, said: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Change how a card is shared, or the part of a container; return the cards."""
        return list(self._ask("POST", "/gpu_shares/set", said))

    def gpus(self) -> list[dict[str, Any]]:
        """Return every GPU with what it does and who holds it."""
        return list(self._ask("GET", "/gpus"))

    def shared_cards(self) -> list[dict[str, Any]]:
        """Return every GPU that tasks have parts of; none of them is lent."""
        return list(self._ask("GET", "/gpu_shares"))

    def driver(self) -> dict[str, Any]:
        """Return the driver, its nodes and files, and each GPU with its own nodes."""
        return dict(self._ask("GET", "/gpus/driver"))

    def _ask(
        self, method: str, path: str, document: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> Any:
        headers = {"Content-Type": "application/json", **self._credential()}
        body = None if document is None else json.dumps(document)
        connection = self._connection(timeout_s)
        try:
            connection.request(method, f"{self._parts.path.rstrip('/')}{path}", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(
                f"the agent at {self.address.url} does not answer ({error}), and no GPU is given without it; is "
                f"mesos-gpu-agent running there? {VARIABLE} and {SETTINGS} say where it is"
            ) from None
        finally:
            connection.close()
        if answer.status == 204:
            return None
        if answer.status >= 300:
            raise Refused(text.strip() or f"the agent answered {answer.status}", status=answer.status, body=text)
        try:
            return json.loads(text)
        except ValueError:
            raise Unavailable(f"what answers at {self.address.url} is not an agent of mesos-gpu") from None

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        context = ssl.create_default_context(cafile=self.address.ca or None)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)

    def _credential(self) -> dict[str, str]:
        if not self.address.credential:
            return {}
        try:
            words = Path(self.address.credential).read_text(encoding="utf-8").split()
        except OSError as error:
            raise Unavailable(f"cannot read the credential {self.address.credential}: {error.strerror}") from None
        named = dict(pairwise(words))
        if "login" in named and "password" in named:
            words = [named["login"], named["password"]]
        if len(words) != 2:
            raise BadInput(f"{self.address.credential} must have a principal and a secret, in one line")
        return {"Authorization": "Basic " + base64.b64encode(":".join(words).encode()).decode()}
