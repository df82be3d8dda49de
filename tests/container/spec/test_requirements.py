from __future__ import annotations

import pytest

from mesos_gpu.container.spec.requirements import DriverFacts, unmet
from mesos_gpu.images.manifest import ImageConfig

DRIVER = DriverFacts("550.54.15", "12.4")


@pytest.mark.parametrize(
    "text",
    [
        "cuda>=12.0",
        "cuda>=12.4",
        "cuda=12.4",
        "cuda!=11.8",
        "cuda>11,cuda<13",
        "cuda>=99 driver>=550.54",
        "cuda>=99 brand=tesla,driver>=535,driver<551",
        "arch>=9.0",
        "",
        "nonsense",
    ],
)
def test_a_driver_that_fits(text: str) -> None:
    assert unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": text}), DRIVER) is None


@pytest.mark.parametrize("text", ["cuda>=12.5", "cuda>12.4", "cuda<12", "cuda>=99 driver>=560", "cuda>=12,driver<500"])
def test_a_driver_that_does_not_fit_is_named_with_what_was_asked(text: str) -> None:
    problem = unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": text}), DRIVER)
    assert problem is not None
    assert text in problem
    assert "CUDA 12.4" in problem
    assert "550.54.15" in problem


def test_a_label_asks_as_the_environment_does_which_counts_more() -> None:
    label = {"NVIDIA_REQUIRE_CUDA": "cuda>=99"}
    assert unmet(ImageConfig(labels=label), DRIVER) is not None
    assert unmet(ImageConfig(labels=label, env={"NVIDIA_REQUIRE_CUDA": "cuda>=12"}), DRIVER) is None


def test_a_huge_number_is_more_than_any_driver_has() -> None:
    """Python refuses to read more than 4300 digits."""
    said = unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": f"cuda>={'9' * 100_000}"}), DriverFacts("550.1", "12.4"))
    assert said is not None
    assert "CUDA 12.4" in said
    assert len(said) < 500
    assert (
        unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": f"cuda>={'0' * 5000}12"}), DriverFacts("550.1", "12.4")) is None
    )


def test_every_requirement_has_to_hold() -> None:
    assert unmet(ImageConfig(env={"NVIDIA_REQUIRE_CUDA": "cuda>=12", "NVIDIA_REQUIRE_X": "driver>=999"}), DRIVER)


def test_an_image_that_only_says_its_cuda_needs_that() -> None:
    assert unmet(ImageConfig(env={"CUDA_VERSION": "12.4.1"}), DRIVER) is None
    assert unmet(ImageConfig(env={"CUDA_VERSION": "12.5.0"}), DRIVER) is not None
    both = {"CUDA_VERSION": "12.5.0", "NVIDIA_REQUIRE_CUDA": "cuda>=12.0"}
    assert unmet(ImageConfig(env=both), DRIVER) is None


def test_an_image_may_switch_its_own_needs_off_and_nothing_is_refused_without_a_driver() -> None:
    needs = {"NVIDIA_REQUIRE_CUDA": "cuda>=99"}
    assert unmet(ImageConfig(env={**needs, "NVIDIA_DISABLE_REQUIRE": "true"}), DRIVER) is None
    assert unmet(ImageConfig(env=needs), DriverFacts()) is None
