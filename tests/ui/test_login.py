"""`mesos-gpu ui` at a box that asks who is there: its address lets the user's browser in, once, and nobody else's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Browser, expect

from tests.support.box.live import LiveBox, leftovers
from tests.support.box.users import as_user
from tests.support.ui.browser import Reader

pytestmark = [pytest.mark.root, pytest.mark.slow]
LOG_IN = "Log in to Marathon"
APP = {"id": "here", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(Path(tmp_path_factory.mktemp("closed")) / "box")
    box.up("--gpu_driver=simulated", "--simulated_gpus=2", asks=True)
    box.add(APP)
    yield box
    box.ok("down")
    assert leftovers(box.work_dir) == []


def way_in(box: LiveBox) -> tuple[str, str]:
    """Return the page's address and the ticket that the command line gives."""
    shown = box.cli("ui", "--print")
    assert "once, within two minutes" in shown.stderr
    url, found = shown.stdout.strip().split("/ui/#ticket=")
    assert re.fullmatch(r"[\w-]{43}", found)
    return url, found


def stolen(url: str, ticket: str) -> int:
    """Return what another user of the machine gets for a ticket that he has read."""
    ours = {"X-Requested-By": "mesos-gpu-ui"}
    return requests.post(f"{url}/ui/api/session", json={"ticket": ticket}, headers=ours, timeout=30).status_code


def test_the_address_lets_a_browser_in_once_and_is_forgotten_at_once(closed: LiveBox, browser: Browser) -> None:
    url, ticket = way_in(closed)
    assert as_user("nobody", lambda: stolen(url, ticket)) == 403
    reader = Reader.of(browser, url)
    page = reader.go(f"#ticket={ticket}")
    # Marathon's own API, and the master's and an agent's by it.
    page.goto(f"{url}/ui/#/services")
    expect(page.get_by_role("link", name="/here")).to_be_visible()
    page.goto(f"{url}/ui/#/gpus")
    expect(page.get_by_text("/here").first).to_be_visible()
    (cookie,) = reader.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    assert "ticket" not in page.evaluate("JSON.stringify([location.href, document.cookie, {...localStorage}])")
    page.reload()
    expect(page.get_by_text("/here").first).to_be_visible()
    # A second tab of the same browser is let in, too.
    second = reader.context.new_page()
    second.goto(f"{url}/ui/#/services")
    expect(second.get_by_role("link", name="/here")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name=LOG_IN)).to_be_visible()
    assert reader.context.cookies() == []
    assert reader.violations() == []
    second.reload()
    expect(second.get_by_role("heading", name=LOG_IN)).to_be_visible()
    reader.close()


def test_a_used_address_asks_for_the_password_and_no_window_of_the_browsers_comes(
    closed: LiveBox, browser: Browser
) -> None:
    url, ticket = way_in(closed)
    first, again = Reader.of(browser, url), Reader.of(browser, url)
    first.go(f"#ticket={ticket}")
    page = again.go(f"#ticket={ticket}")
    expect(page.get_by_role("heading", name=LOG_IN)).to_be_visible()
    box = json.loads((closed.work_dir / "box.json").read_text())
    assert box["marathon"]["url"] == url
    page.get_by_label("Name").fill("box")
    page.get_by_label("Password").fill((closed.work_dir / "access" / "secret").read_text())
    again.button("Log in").click()
    page.goto(f"{url}/ui/#/services")
    expect(page.get_by_role("link", name="/here")).to_be_visible()
    first.close()
    again.close()
