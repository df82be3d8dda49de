"""What a request may come to instead of an answer, and what may stand in its URL as it is; without importing HTTP."""

from __future__ import annotations

IN_URLS = "!#$%&'()*+,/:;=?@[]~"
"""What has a meaning in a URL, or is escaped already; the rest is escaped before it travels."""


class NoAnswer(Exception):
    """A request that got no answer, or half of one. `may_have_arrived`: the server may have acted on it."""

    def __init__(self, reason: str, *, may_have_arrived: bool) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived
