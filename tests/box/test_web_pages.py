"""A web page that is open on the same machine changes nothing in a box, whatever it sends and however it is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from tests.support.box.live import LiveBox, live_box

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]

FOREIGN = {"Origin": "http://evil.com"}
REBOUND = {"Origin": "http://evil.com:5050", "Host": "evil.com:5050"}
OTHER_PORT = {"Origin": "http://127.0.0.1:31005"}
"""The page of a task of this very machine."""
APP = '{"id": "/evil", "cmd": "id", "user": "root"}'
FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
CHANGES = {
    "marathon": [
        ("POST", "/v2/apps", APP),
        ("POST", "/v2/apps/", APP),
        ("POST", "/v2/groups", '{"id": "/evil", "apps": []}'),
        ("POST", "/v2/pods", '{"id": "/evil"}'),
        ("POST", "/v1/jobs", '{"id": "evil", "run": {"cmd": "id"}}'),
        ("POST", "/v2/tasks/delete", '{"ids": []}'),
        ("POST", "/logging", '{"logger": "x", "level": "debug"}'),
    ],
    "agent": [
        ("POST", "/images/pull", '{"reference": "evil"}'),
        ("POST", "/images/prune", "{}"),
        ("POST", "/api/v1", '{"type": "PRUNE_IMAGES"}'),
    ],
    "master": [
        ("POST", "/api/v1", '{"type": "GET_HEALTH"}'),
        ("POST", "/machine/down", '[{"hostname": "x"}]'),
        ("POST", "/teardown", "frameworkId=x"),
    ],
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    with live_box(tmp_path_factory.mktemp("pages") / "box", "--gpu_driver=simulated", "--simulated_gpus=1") as made:
        yield made


def url_of(box: LiveBox, service: str) -> str:
    found = box.status()
    return str((found["agents"][0] if service == "agent" else found[service])["url"])


@pytest.mark.parametrize("service", sorted(CHANGES))
def test_pages_of_others_change_nothing(box: LiveBox, service: str) -> None:
    url = url_of(box, service)
    for method, path, body in CHANGES[service]:
        for page in (FOREIGN, REBOUND, OTHER_PORT, {"Origin": "null"}):
            for kind in (None, "application/json", *FORMS):
                headers = page if kind is None else {**page, "Content-Type": kind}
                answer = requests.request(method, url + path, data=body.encode(), headers=headers, timeout=30)
                assert answer.status_code == 403, (path, headers, answer.text)
                assert "--http_hosts=" in answer.text or page == {"Origin": "null"}
    assert requests.get(f"{url}/health" if service != "marathon" else f"{url}/ping", headers=FOREIGN, timeout=30).ok
    rebound = requests.get(f"{url}/state", headers={"Host": "evil.com"}, timeout=30)
    assert rebound.status_code == 403, "nor does one read under a name that was made to lead here"
    assert box.marathon("/v2/apps")["apps"] == []


@pytest.mark.parametrize("kind", FORMS)
def test_forms_are_no_json(box: LiveBox, kind: str) -> None:
    headers = {"Content-Type": kind}
    for service, paths in {"marathon": ["/v2/apps", "/v2/groups", "/v1/jobs"], "agent": ["/images/pull"]}.items():
        for path in paths:
            answer = requests.post(url_of(box, service) + path, data=APP.encode(), headers=headers, timeout=30)
            assert answer.status_code == 415, (path, answer.text)
    assert box.marathon("/v2/apps")["apps"] == []


def test_a_page_of_its_own_may_act(box: LiveBox) -> None:
    url = url_of(box, "marathon")
    app = {"id": "/own", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "instances": 0}
    assert requests.post(f"{url}/v2/apps", json=app, headers={"Origin": url}, timeout=30).status_code == 201
    assert requests.delete(f"{url}/v2/apps/own", headers={"Origin": url}, timeout=30).status_code == 200
