"""What --mig_profiles says."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.agent.mig.settings import check_mig, divisions
from mesos_gpu.errors import BadFlag
from tests.support.golden import Golden

GOOD = AgentFlags(mig_strategy="single")


def test_each_gpu_is_told_its_profiles() -> None:
    assert divisions("0:3g.20gb,2x1g.5gb; GPU-6b:none;") == {"0": "3g.20gb,2x1g.5gb", "GPU-6b": "none"}
    assert divisions(None) == divisions("") == {}


@pytest.mark.parametrize(
    "text",
    [
        "3g.20gb",
        ":3g.20gb",
        "0:3g.20gb;0:none",
        "0:half",
    ],
)
def test_what_says_no_division_is_refused(text: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        divisions(text)
    assert str(refused.value) == golden


@pytest.mark.parametrize("flags", [{"mig_strategy": "none"}, {"isolation": ()}, {"nvidia_gpu_devices": ("0",)}])
def test_profiles_that_nobody_would_be_offered_are_refused(flags: dict[str, Any], golden: Golden) -> None:
    check_mig(GOOD.replace(mig_profiles="0:none"))
    check_mig(GOOD.replace(**flags))
    with pytest.raises(BadFlag) as refused:
        check_mig(GOOD.replace(**flags, mig_profiles="0:1g.5gb"))
    assert str(refused.value) == golden
