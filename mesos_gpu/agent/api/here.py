"""Whether a request comes from the agent's own machine, as what changes that machine must."""

from __future__ import annotations

import ipaddress

from aiohttp import web

from mesos_gpu.process.requests import is_over_unix_socket


def is_from_here(request: web.Request, *, socket: bool = False) -> bool:
    """Return whether a request comes over the loopback, or over an address of this machine that it was sent to.

    The latter is how an agent is asked that has no other address (--ip): Linux lets nobody else come from there.
    `socket`: what is to be said of a domain socket, which has no address; containers may have been given one.
    """
    if is_over_unix_socket(request):
        return socket
    if not request.remote:
        return False
    remote = ipaddress.ip_address(request.remote)
    if remote.is_loopback:
        return True
    own = request.get_extra_info("sockname")
    return isinstance(own, tuple) and str(remote) == own[0]
