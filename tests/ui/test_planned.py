"""The page's dialog says what would happen before it does: in a real browser, of a gang at a real box."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.box.live import LiveBox
from tests.support.ui.browser import Reader

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def nothing_of_it_stays(site: LiveBox) -> Iterator[None]:
    yield
    for app in site.marathon("/v2/apps")["apps"]:
        site.ok("app", "remove", app["id"], "--force")
    site.until("all GPUs are free", lambda: site.gpus_free() == 4)


def test_a_dialog_says_what_would_wait_and_what_would_start(site: LiveBox, reader: Reader) -> None:
    page = reader.go("#/create")
    page.get_by_label("Id", exact=True).fill("/walk/gang")
    page.get_by_label("Command").fill("sleep 1000")
    page.get_by_label("Instances").fill("2")
    page.get_by_label("GPUs of each").fill("3")
    page.get_by_label("Memory of each, MiB").fill("32")
    page.get_by_label("Size of a gang").fill("2")
    assert json.loads(page.get_by_label("JSON", exact=True).input_value())["gang"] == {"size": 2}

    reader.button("Review").click()
    planned = page.get_by_role("region", name="What would happen now")
    expect(planned).to_contain_text("nothing would start, 2 would wait.")
    expect(planned.locator("li")).to_contain_text("/walk/gang: 2 wait: ")
    page.keyboard.press("Escape")
    assert site.marathon("/v2/apps")["apps"] == []

    page.get_by_label("GPUs of each").fill("2")
    reader.button("Review").click()
    expect(planned).to_contain_text("2 would start.")
    # One on each machine; both are called alike here.
    expect(planned.locator("li", has_text="one starts on")).to_have_count(2)
    reader.confirm("Create")
    expect(page.locator(".facts .state-running")).to_be_visible()
    assert site.gpus_free() == 0
