from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.container.host.rootfs import short_names

STORE = Path("/var/lib/store/layers")
LAYERS = [STORE / f"sha256-{number}" / "root" for number in range(3)]


def test_layers_are_named_from_the_folder_around_them() -> None:
    names = ["sha256-0/root", "sha256-1/root", "sha256-2/root"]
    assert short_names(LAYERS, 100) == (str(STORE), names)


def test_one_layer_is_named_too() -> None:
    assert short_names(LAYERS[:1], 100) == (str(LAYERS[0].parent), ["root"])


@pytest.mark.parametrize(("room", "fits"), [(42, True), (41, False)])
def test_names_that_need_more_than_there_is_are_not_taken(room: int, fits: bool) -> None:
    assert (short_names(LAYERS, room) is not None) is fits


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b"])
def test_names_with_a_meaning_in_options_are_not_taken(name: str) -> None:
    assert short_names([*LAYERS, STORE / name / "root"], 1000) is None
