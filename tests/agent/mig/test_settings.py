"""What --mig_profiles says."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.agent.mig.settings import check_mig, divisions
from mesos_gpu.errors import BadFlag

GOOD = {"mig_strategy": "single", "isolation": ("gpu/nvidia",), "nvidia_gpu_devices": None}


def test_each_gpu_is_told_its_profiles() -> None:
    assert divisions("0:3g.20gb,2x1g.5gb; GPU-6b:none;") == {"0": "3g.20gb,2x1g.5gb", "GPU-6b": "none"}
    assert divisions(None) == divisions("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3g.20gb", "does not say GPU:PROFILE"),
        (":3g.20gb", "does not say GPU:PROFILE"),
        ("0:3g.20gb;0:none", "names GPU 0 twice"),
        ("0:half", "GPU 0: 'half' is not a MIG profile"),
    ],
)
def test_what_says_no_division_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadFlag, match=words):
        divisions(text)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"mig_strategy": "none"}, "needs --mig_strategy=single"),
        ({"isolation": ()}, "needs 'gpu/nvidia' in --isolation"),
        ({"nvidia_gpu_devices": ("0",)}, "cannot be with --nvidia_gpu_devices"),
    ],
)
def test_profiles_that_nobody_would_be_offered_are_refused(flags: dict[str, Any], words: str) -> None:
    check_mig({**GOOD, "mig_profiles": "0:none"})
    check_mig({**GOOD, **flags, "mig_profiles": None})
    with pytest.raises(BadFlag, match=words):
        check_mig({**GOOD, **flags, "mig_profiles": "0:1g.5gb"})
