"""What the page says of a task that its agent could not suspend, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.box.live import LiveBox, live_box
from tests.support.simulated.played import never_ends
from tests.support.ui.browser import PATIENCE_MS, Reader
from tests.ui.catalogue import EN, ZH, text

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE_MS)

USER = {"cmd": never_ends(), "cpus": 0.1, "mem": 64}


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[LiveBox]:
    """A box in which /patient has most of a shared card, could not be suspended for /urgent, and has it still."""
    with live_box(tmp_path / "box", "--gpu_driver=simulated", "--simulated_gpus=1", "--shared_gpus=0") as box:
        box.add({"id": "patient", "preemptible": True, "gpuShare": {"memGiB": 10}, **USER})
        box.until("it computes", lambda: "devices 1" in box.log_of("patient"))
        urgent = {"id": "urgent", "gpuShare": {"memGiB": 12, "highPriority": True}, **USER}
        box.ok("app", "add", "-", text=json.dumps(urgent))
        box.until("it is refused", lambda: "suspensionRefused" in box.tasks("patient")[0])
        yield box


@pytest.mark.parametrize(("locale", "catalogue"), [("en-US", EN), ("zh-CN", ZH)], ids=["en", "zh"])
def test_it_says_who_could_not_be_suspended_for_whom_and_why(
    browser: Browser, refused: LiveBox, locale: str, catalogue: dict[str, str]
) -> None:
    reader = Reader.of(browser, refused.status()["marathon"]["url"], locale=locale)
    (task,) = refused.tasks("patient")
    reason = str(task["suspensionRefused"]["reason"])
    could_not = text("suspension.notSuspended", catalogue, taker="/urgent", reason=reason)
    for place in ("#/services/patient", f"#/instances/{task['id']}", f"#/machines/{task['slaveId']}"):
        page = reader.go(place)
        expect(page.locator(".reason", has_text=could_not)).to_be_visible()
        assert reader.violations() == [], place
    page = reader.go("#/services/urgent?tab=why")
    expect(page.locator(".headline")).to_contain_text(reason)
    reader.close()
