"""One thing that was looked at. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """How something is; only a PROBLEM keeps GPU containers from running."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, what was found, and how to mend it (empty where there is nothing to mend)."""

    check: str
    verdict: Verdict
    found: str
    mend: str = ""

    def document(self) -> dict[str, str]:
        """Return it for programs."""
        shown = {"check": self.check, "verdict": self.verdict.value, "found": self.found}
        return {**shown, "mend": self.mend} if self.mend else shown
