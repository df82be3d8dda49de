"""How far a pull is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

Phase = Literal["resolving", "downloading", "extracting", "done"]


class Progress(Struct, frozen=True):
    """A pull at one moment. Bytes are those of layers that have to be downloaded; layers are all of the image."""

    reference: str
    phase: Phase
    layers_done: int = 0
    layers_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0

    def __str__(self) -> str:
        if self.phase in ("resolving", "done"):
            return f"{self.phase} {self.reference}"
        mib = f"{self.bytes_done / (1 << 20):.1f} of {self.bytes_total / (1 << 20):.1f} MiB"
        return f"{self.phase} {self.reference}: {mib}, {self.layers_done} of {self.layers_total} layers unpacked"


Tell = Callable[[Progress], None]


@dataclass(slots=True, eq=False)
class LayerState:
    """A layer being brought in; `watchers` are called at each change."""

    total: int
    got: int = 0
    extracting: bool = False
    done: bool = False
    watchers: list[Callable[[], None]] = field(default_factory=list)

    def change(self, *, got: int | None = None, extracting: bool = False, done: bool = False) -> None:
        """Note what happened and tell all who watch."""
        self.got = self.got if got is None else got
        self.extracting, self.done = self.extracting or extracting, self.done or done
        for watcher in tuple(self.watchers):
            watcher()


def sum_up(reference: str, layers: Sequence[LayerState], there: int) -> Progress:
    """Return how far a pull is that has `there` layers already and brings in `layers`."""
    done = got = total = 0
    phase: Phase = "extracting"
    for layer in layers:  # once: it is called for each piece of each layer
        done += layer.done
        got += layer.got
        total += layer.total
        if not (layer.extracting or layer.done):
            phase = "downloading"
    return Progress(reference, phase, there + done, there + len(layers), got, total)
