from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.images.collection import Kept, choose

SIZES = {name: number for number, name in enumerate("abcdef", start=1)}


def kept(name: str, layers: str, used_at_s: float, *, held: bool = False) -> Kept:
    return Kept(name, frozenset(layers), used_at_s, held)


def test_old_images_go_first_then_the_longest_unused() -> None:
    images = [kept("x", "f", 10), kept("y", "e", 80), kept("z", "d", 90)]
    assert choose(images, SIZES, (), max_bytes=None, max_age_s=50, now_s=100) == ("x",)
    assert choose(images, SIZES, (), max_bytes=4, max_age_s=50, now_s=100) == ("x", "y")
    assert choose(images, SIZES, (), max_bytes=None, max_age_s=None, now_s=100) == ()
    assert choose(images, SIZES, (), max_bytes=0, max_age_s=None, now_s=100) == ("x", "y", "z")


def test_images_that_share_all_layers_go_together() -> None:
    images = [kept("x", "f", 1), kept("y", "f", 2), kept("z", "a", 3)]
    assert choose(images, SIZES, (), max_bytes=1, max_age_s=None, now_s=9) == ("x", "y")


def test_an_image_whose_end_frees_nothing_stays() -> None:
    images = [kept("x", "a", 1), kept("y", "ab", 2, held=True), kept("z", "c", 3)]
    assert choose(images, SIZES, (), max_bytes=3, max_age_s=None, now_s=9) == ("z",)


@given(
    st.lists(
        st.tuples(st.frozensets(st.sampled_from("abcdef"), min_size=1), st.integers(0, 100), st.booleans()), max_size=8
    ),
    st.frozensets(st.sampled_from("abcdef"), max_size=2),
    st.none() | st.integers(0, 25),
    st.none() | st.integers(0, 100),
)
def test_held_images_stay_and_the_rest_fits_or_cannot(
    drawn: list[tuple[frozenset[str], int, bool]],
    held_layers: frozenset[str],
    max_bytes: int | None,
    max_age_s: int | None,
) -> None:
    images = [Kept(str(n), layers, used, held) for n, (layers, used, held) in enumerate(drawn)]
    gone = choose(images, SIZES, held_layers, max_bytes=max_bytes, max_age_s=max_age_s, now_s=100)
    left = [image for image in images if image.name not in gone]
    assert len(set(gone)) == len(gone)
    assert all(not image.held for image in images if image.name in gone)
    if max_age_s is not None:
        assert all(image.held or 100 - image.used_at_s <= max_age_s for image in left)
    needed = held_layers.union(*(image.layers for image in left))
    pinned = held_layers.union(*(image.layers for image in left if image.held))
    if max_bytes is not None and sum(map(SIZES.__getitem__, needed)) > max_bytes:
        assert all(image.held or image.layers <= pinned for image in left)
