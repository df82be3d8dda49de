"""The page of usage, in a real browser at a real box: what tasks had, by app, role and user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.box.live import LiveBox
from tests.support.ui.browser import Reader

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_keys_g_h_lead_to_what_apps_had(site: LiveBox, reader: Reader, tmp_path: Path) -> None:
    app = {"id": "/used/gpus", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}
    site.ok("app", "add", "-", "--wait", text=json.dumps(app))
    try:
        page = reader.go("#/overview")
        page.keyboard.press("g")
        page.keyboard.press("h")
        expect(page.get_by_role("heading", name="Usage")).to_be_visible()
        row = page.get_by_role("row", name="/used/gpus")
        expect(row).to_be_visible()
        expect(row.get_by_role("link", name="/used/gpus")).to_have_attribute("href", "#/services/used/gpus")
        expect(row).to_contain_text("32 MiB")
        # The same figures as Marathon has for the command line.
        (told,) = [each for each in site.marathon("/v1/usage")["usage"] if each["app"] == "/used/gpus"]
        assert told["gpuHours"] >= 0
        page.get_by_role("link", name="User").click()
        expect(page.get_by_role("columnheader", name="User")).to_be_visible()
        expect(page.get_by_role("row", name=str(told["user"]))).to_be_visible()
        page.get_by_role("link", name="Four weeks").click()
        expect(page.get_by_role("link", name="Four weeks")).to_have_attribute("aria-current", "page")
        picture = page.screenshot(path=tmp_path / "usage.png", full_page=True)
        assert len(picture) > 5000
        assert reader.violations() == []
    finally:
        site.ok("app", "remove", "/used/gpus", "--force")
        site.until("all GPUs are free", lambda: site.gpus_free() == 4)
