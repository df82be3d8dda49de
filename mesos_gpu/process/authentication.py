"""The gate before HTTP endpoints: who asks, and 401 for those who do not show it where that is wanted."""

from __future__ import annotations

import time
from collections.abc import Mapping

from aiohttp import web

from mesos_gpu.mesos.security.authentication import Realm
from mesos_gpu.mesos.security.authorization import Acls, Principal
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.http import error_response
from mesos_gpu.process.requests import header

_PRINCIPAL = web.RequestKey("mesos_gpu.principal", Principal)


class Gate:
    """Lets requests in. `realms`: those where callers must show who they are, by what the endpoints are for.

    `hint` is what those are told, beside the refusal, who do not.
    """

    def __init__(self, realms: Mapping[str, Realm] | None = None, hint: str | None = None) -> None:
        self._realms, self._hint = realms or {}, hint

    def refusal(self, request: web.Request, use: str) -> web.Response | None:
        """Return the answer to somebody who may not in, None for who may: then `principal_of` says who it is."""
        realm = self._realms.get(use)
        if realm is None:
            return None
        principal = realm.authenticate(header(request, "Authorization"), time.time())
        if principal is None and not realm.required:
            return None
        if principal is None:
            answer = error_response(401, realm.refusal if self._hint is None else f"{realm.refusal}\n{self._hint}")
            answer.headers["WWW-Authenticate"] = realm.challenge
            return answer
        request[_PRINCIPAL] = principal
        return None


def principal_of(request: web.Request) -> Principal | None:
    """Return who makes a request; None where nobody is asked."""
    return request.get(_PRINCIPAL)


def viewer_of(request: web.Request, acls: Acls) -> Viewer:
    """Return what whoever makes a request may see."""
    return Viewer(acls, principal_of(request))
