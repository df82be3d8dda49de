"""What browsers find at `/` of a master and an agent, and that programs find what they always did."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from marathon_cli.commands.ui import has_browser
from mesos_gpu.ui import landing


@pytest.mark.parametrize(
    ("method", "accept", "wants"),
    [
        ("GET", "text/html,application/xhtml+xml", True),
        ("HEAD", "text/html", True),
        ("POST", "text/html", False),
        ("GET", "*/*", False),
        ("GET", "application/json", False),
    ],
)
def test_only_browsers_are_led_anywhere(method: str, accept: str, wants: bool) -> None:
    assert landing.wants_page(make_mocked_request(method, "/", headers={"Accept": accept})) is wants


def test_the_page_lies_at_the_address_that_a_marathon_gives_if_that_is_one() -> None:
    assert landing.page_of("http://m:8080/", "machines") == "http://m:8080/ui/#/machines"
    assert landing.page_of("https://m", "machines", "a/b S1") == "https://m/ui/#/machines/a%2Fb%20S1"
    assert landing.page_of("javascript:alert(1)", "machines") is None


def test_names_of_links_are_text_and_their_targets_addresses() -> None:
    page = landing.links_page("<i>t</i>", "a & b", [("javascript:x", "evil"), ("/state", '"><img src=x onerror=x>')])
    text = page.body.decode()  # type: ignore[union-attr]
    assert "evil" not in text
    assert "<img" not in text
    assert '<a href="/state">&quot;&gt;&lt;img' in text
    assert "&lt;i&gt;" in text
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("environ", "platform", "there"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "1"}, "linux", False),
        ({}, "darwin", True),
    ],
)
def test_a_browser_is_opened_where_it_would_be_seen(environ: dict[str, str], platform: str, there: bool) -> None:
    assert has_browser(environ, platform) is there
