"""The keys that mean `detach`, as Docker writes them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesos_gpu.errors import BadInput

DETACH_KEYS = "ctrl-p,ctrl-q"


def keys(text: str) -> bytes:
    """Read keys such as `ctrl-p,ctrl-q` or `ctrl-],x`; empty is none. Raises BadInput."""
    return bytes(_key(word.strip(), text) for word in text.split(",")) if text.strip() else b""


@dataclass(slots=True)
class DetachKeys:
    """Watches what is typed for a sequence of keys; what may be its begin is kept back until that is decided."""

    sequence: bytes
    _kept: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return what is to be passed on, and whether the sequence was typed (what follows it is dropped)."""
        if not self.sequence:
            return data, False
        held = self._kept + data
        at = held.find(self.sequence)
        if at >= 0:
            self._kept = b""
            return held[:at], True
        most = min(len(held), len(self.sequence) - 1)
        keep = next((n for n in range(most, 0, -1) if held.endswith(self.sequence[:n])), 0)
        self._kept = held[len(held) - keep :]
        return held[: len(held) - keep], False


def _key(word: str, text: str) -> int:
    small = word.lower()
    if len(word) == 1 and word.isascii():
        return ord(word)
    if small.startswith("ctrl-") and len(small) == 6 and ("a" <= small[5] <= "z" or small[5] in "@[\\]^_"):
        return ord(small[5].upper()) & 0x1F
    raise BadInput(
        f"{text!r}: {word!r} is not a key; give single characters and ctrl-a to ctrl-z, ctrl-@ [ \\ ] ^ or _"
    )
