"""Which images to give up. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct


class Kept(Struct, frozen=True):
    """An image in the store. `used_at_s` is when it was last pulled, used or released (Unix time)."""

    name: str
    layers: frozenset[str]
    used_at_s: float
    held: bool


def choose(
    images: Sequence[Kept],
    sizes: Mapping[str, int],
    held_layers: Collection[str],
    *,
    max_bytes: int | None,
    max_age_s: float | None,
    now_s: float,
) -> tuple[str, ...]:
    """Return the names of images to drop: those unused for longer than `max_age_s`, then the longest unused ones until
    what is left takes at most `max_bytes`. Held images stay; so do those of layers that stay anyway.

    `sizes` is bytes by layer; `held_layers` stay whatever happens.
    """
    wanted = Counter(layer for image in images for layer in image.layers)
    wanted.update(held_layers)
    dropped: list[str] = []

    def drop(image: Kept) -> None:
        dropped.append(image.name)
        wanted.subtract(image.layers)

    free = sorted((image for image in images if not image.held), key=lambda image: (image.used_at_s, image.name))
    for image in free:
        if max_age_s is not None and now_s - image.used_at_s > max_age_s:
            drop(image)
    if max_bytes is not None:
        pinned = {*held_layers}.union(*(image.layers for image in images if image.held))
        for image in free:
            total = sum(sizes.get(layer, 0) for layer, count in wanted.items() if count > 0)
            if total <= max_bytes:
                break
            if image.name not in dropped and not image.layers <= pinned:
                drop(image)
    return tuple(dropped)
