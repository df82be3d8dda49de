"""The flags of collection, as Mesos has them."""

from __future__ import annotations

import pytest

from mesos_gpu.agent.configuration import gc_rules
from mesos_gpu.agent.decisions.collecting import GcRules
from mesos_gpu.agent.flags import COMMAND_LINE, AgentFlags
from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import flags_as_text, parse_flags


def flags(*words: str) -> AgentFlags:
    return parse_flags(COMMAND_LINE, ["--work_dir=/w", "--master=h:5050", *words], {})[0]


def test_defaults_are_those_of_mesos() -> None:
    assert gc_rules(flags()) == GcRules(delay_s=604_800.0, headroom=0.1, watch_interval_s=60.0, nested=False)
    shown = flags_as_text(flags())
    assert (shown["gc_delay"], shown["gc_disk_headroom"], shown["disk_watch_interval"]) == ("1weeks", "0.1", "1mins")


@pytest.mark.parametrize(
    "word", ["--gc_disk_headroom=-0.1", "--gc_disk_headroom=1.1", "--gc_disk_headroom=nan", "--disk_watch_interval=0ns"]
)
def test_what_makes_no_sense_is_refused(word: str) -> None:
    with pytest.raises(BadFlag, match=word[2:].partition("=")[0]):
        flags(word)
    flags("--gc_disk_headroom=1", "--gc_delay=0ns")
