"""A long list is drawn in part, and said to be whole."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.support.ui.browser import Reader
from tests.support.ui.large import LargeMarathon, status_event

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
APPS = 1000


def test_of_a_thousand_services_those_in_sight_are_drawn_and_all_are_counted(browser: Browser) -> None:
    with LargeMarathon(APPS).serving() as marathon:
        reader = Reader.of(browser, marathon.url)
        page = reader.go("#/services")
        rows = page.locator("tbody tr[aria-rowindex]")
        expect(rows.first).to_have_attribute("aria-rowindex", "2")
        assert rows.count() < 200
        expect(page.locator("table")).to_have_attribute("aria-rowcount", str(APPS + 1))
        height = page.evaluate("document.documentElement.scrollHeight")
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        expect(rows.last).to_have_attribute("aria-rowindex", str(APPS + 1))
        assert rows.count() < 200
        assert page.evaluate("document.documentElement.scrollHeight") == pytest.approx(height, abs=80)
        assert reader.violations() == []
        page.get_by_role("searchbox").fill("service-999")
        expect(rows).to_have_count(1)
        marathon.publish([status_event(999, n, "TASK_KILLED") for n in range(2)])
        expect(page.locator("tbody")).to_contain_text("of 5")
        reader.close()
