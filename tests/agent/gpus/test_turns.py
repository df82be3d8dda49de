"""What was said of a container is forgotten with it, and never in the way of its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.gpus.share_rules import ShareRules, ShareSaid
from mesos_gpu.agent.gpus.sharing_settings import SharingSettings
from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard

A, B = ContainerId("a"), ContainerId("b")
SETTINGS = SharingSettings(devices=("0",), policy=1, max_inst=25, slice_s=0.02, prio_ratio=90)


class _Isolator:
    def __init__(self) -> None:
        self.cards = {0: SharedCard(0, "GPU-0", 16384)}
        self.shares = {one: Share((CardPart(0, 4, 2),)) for one in (A, B)}


def turns_of(isolator: Any, folder: Path) -> Turns:
    rules = ShareRules(folder / "rules.json", SETTINGS)
    rules.load()
    return Turns(isolator, rules, folder, simulated=False, freeze_file=lambda container_id: None)


async def test_what_was_said_of_one_that_ended_while_no_agent_was_there_is_forgotten(tmp_path: Path) -> None:
    isolator = _Isolator()
    before = turns_of(isolator, tmp_path)
    for one in (A, B):
        await before.set_share(one, ShareSaid(weight=5))
    del isolator.shares[A]
    turns = turns_of(isolator, tmp_path)
    await turns.add([B])
    await turns.remove(A)
    assert turns_of(isolator, tmp_path).rules.weight(A, 2) == 2
    assert turns_of(isolator, tmp_path).rules.weight(B, 2) == 5, "it is there"


async def test_a_disk_that_is_full_does_not_keep_an_end_from_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolator = _Isolator()
    turns = turns_of(isolator, tmp_path)
    await turns.add([A, B])
    for one in (A, B):
        await turns.set_share(one, ShareSaid(weight=5))

    def full(rules: ShareRules, said: object) -> None:
        raise Unavailable("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ShareRules, "_save", full)
        del isolator.shares[A]
        await turns.remove(A)
    assert turns_of(isolator, tmp_path).rules.weight(A, 2) == 5, "it could not be written"
    del isolator.shares[B]
    await turns.remove(B)
    assert turns_of(isolator, tmp_path).rules.weight(A, 2) == 2
