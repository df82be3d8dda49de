"""What a machine lacks for a box is said all at once, and before anything is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mesos_gpu import local
from mesos_gpu.errors import Unavailable
from mesos_gpu.local.preflight import what_is_missing
from tests.support.golden import Golden


def there(_: str = "") -> str:
    return "/usr/bin/it"


def no_conmon() -> None:
    raise Unavailable("conmon is missing: apt install conmon")


def test_a_machine_that_has_everything_lacks_nothing() -> None:
    assert list(what_is_missing(0, (there, there), there)) == []


def test_everything_that_is_missing_is_named(golden: Golden) -> None:
    root, runtime, conmon = what_is_missing(1000, (there, no_conmon), lambda _: None)
    assert [root, runtime] == golden
    assert conmon == "conmon is missing: apt install conmon"


def test_nothing_is_started_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable) as refused:
        local.up(local.UpOptions(work_dir=tmp_path / "box", detach=True))
    assert str(refused.value) == golden
    assert not (tmp_path / "box").exists()
