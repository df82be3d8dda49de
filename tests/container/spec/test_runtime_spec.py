"""ENTRYPOINT and CMD against CommandInfo: the whole table of Mesos' docker/runtime isolator (runtime.cpp)."""

from __future__ import annotations

import pytest

from mesos_gpu.container.spec.runtime_spec import Command, image_environment, merge
from mesos_gpu.errors import BadInput
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.mesos.tasks import COMMAND_LABEL, DOCKER_COMMAND, DRIVER_LABEL
from tests.support.golden import Golden

E, C = ("/entry", "e1"), ("/cmd", "c1")
IMAGES = {
    "nothing": ImageConfig(),
    "cmd": ImageConfig(cmd=C),
    "entrypoint": ImageConfig(entrypoint=E),
    "both": ImageConfig(entrypoint=E, cmd=C),
}
ERROR = None
SH = ("/bin/sh", "-c", "value")

# (shell, value, argv) -> what runs with: nothing, cmd, entrypoint, both. arguments[0] of a value is argv[0].
TABLE = {
    (False, None, ()): (ERROR, C, E, (*E, *C)),
    (False, None, ("a", "b")): (ERROR, (C[0], "a", "b"), (*E, "a", "b"), (*E, "a", "b")),
    (False, "value", ()): (("value",),) * 4,
    (False, "value", ("value", "a")): (("value", "a"),) * 4,
    (True, None, ()): (ERROR,) * 4,
    (True, None, ("a",)): (ERROR,) * 4,
    (True, "value", ()): (SH,) * 4,
    (True, "value", ("a",)): (SH,) * 4,
}
CELLS = [
    (Command(shell, value, arguments), image, expected)
    for (shell, value, arguments), row in TABLE.items()
    for image, expected in zip(IMAGES, row, strict=True)
]


@pytest.mark.parametrize(("command", "image", "expected"), CELLS)
def test_a_command_and_an_image_are_merged_as_in_mesos(
    command: Command, image: str, expected: tuple[str, ...] | None, golden: Golden
) -> None:
    if expected is ERROR:
        with pytest.raises(BadInput) as refused:
            merge(command, IMAGES[image])
        assert str(refused.value) == golden
    else:
        assert merge(command, IMAGES[image]) == expected


def test_with_a_label_arguments_take_the_place_of_cmd_as_in_docker() -> None:
    labels = {COMMAND_LABEL: DOCKER_COMMAND}
    words = Command(shell=False, arguments=("a", "b"))
    assert [merge(words, image, labels) for image in IMAGES.values()] == [
        ("a", "b"),
        ("a", "b"),
        (*E, "a", "b"),
        (*E, "a", "b"),
    ]
    assert merge(Command(shell=False), IMAGES["both"], labels) == (*E, *C)
    assert merge(words, IMAGES["cmd"], {COMMAND_LABEL: "mesos"}) == (C[0], "a", "b")


def test_the_driver_that_a_task_asks_for_is_found_as_in_nvidias_images() -> None:
    labels = {DRIVER_LABEL: ""}
    image = ImageConfig(env={"PATH": "/bin:/usr/local/nvidia/bin"})
    found = image_environment(image, {"LD_LIBRARY_PATH": "/mine"}, injected=True, labels=labels)
    assert found["PATH"] == "/bin:/usr/local/nvidia/bin"
    assert found["LD_LIBRARY_PATH"] == "/mine:/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
    assert "LD_LIBRARY_PATH" not in image_environment(image, {}, injected=True)
    assert "LD_LIBRARY_PATH" not in image_environment(image, {}, injected=False, labels=labels)


def test_an_empty_entrypoint_is_none() -> None:
    assert merge(Command(shell=False), ImageConfig(entrypoint=(), cmd=C)) == C


def test_the_tasks_variables_go_over_the_images() -> None:
    image = ImageConfig(env={"PATH": "/image", "A": "image", "B": "image"})
    assert image_environment(image, {"A": "task"}, injected=False) == {"PATH": "/image", "A": "task", "B": "image"}


@pytest.mark.parametrize("image", [{}, {"NVIDIA_DRIVER_CAPABILITIES": "all"}])
@pytest.mark.parametrize("task", [{}, {"NVIDIA_DRIVER_CAPABILITIES": "all"}])
def test_what_the_driver_offers_is_not_for_image_or_task_to_say(image: dict[str, str], task: dict[str, str]) -> None:
    with_driver = image_environment(ImageConfig(env=image), task, injected=True)
    assert with_driver["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert "NVIDIA_DRIVER_CAPABILITIES" not in image_environment(ImageConfig(env=image), task, injected=False)
