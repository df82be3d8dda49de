"""The public `marathon` client (PyPI, 0.13.0) drives a box; docs/reference/compatibility.md: what it cannot."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.box.live import LiveBox

marathon = pytest.importorskip("marathon")
models = pytest.importorskip("marathon.models")
pytest.importorskip("marathon.models.container")
errors = pytest.importorskip("marathon.exceptions")

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

# It cannot read these, of any Marathon since 1.8: plans without the groups before and after.
READABLE = ["status_update_event", "api_post_event", "group_change_success", "event_stream_attached"]


def small(**changes: Any) -> Any:
    return models.MarathonApp(**{"cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "instances": 1, **changes})


class Events:
    """The events of a server, read by the client in a thread of its own."""

    def __init__(self, client: Any) -> None:
        self.seen: list[Any] = []
        self._attached = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(client,), daemon=True)
        self._thread.start()
        assert self._attached.wait(60), "the stream never opened"

    def _read(self, client: Any) -> None:
        with contextlib.suppress(Exception):  # the box goes down while it reads
            for event in client.event_stream(event_types=READABLE):
                self.seen.append(event)
                self._attached.set()

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.seen if event.event_type == kind]


@pytest.fixture
def client(own_box: LiveBox) -> Iterator[Any]:
    client = marathon.MarathonClient(own_box.status()["marathon"]["url"], timeout=60)
    yield client
    client.session.close()


@pytest.fixture
def old_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's groups use a name that Python 3.10 took away."""
    monkeypatch.setattr(collections, "Iterable", collections.abc.Iterable, raising=False)


def _until_running(box: LiveBox, client: Any, count: int) -> None:
    def holds() -> bool:
        app = client.get_app("web")
        return bool(app.tasks_running == count == len(app.tasks) and not client.list_deployments())

    box.until(f"{count} run", holds)


@pytest.mark.filterwarnings("ignore")
def test_the_client_does_what_it_does_with_marathon(own_box: LiveBox, client: Any, old_collections: None) -> None:
    _server(client)
    events = Events(client)
    _apps(own_box, client)
    _tasks(own_box, client)
    _deployments_and_the_queue(own_box, client)
    _groups(own_box, client)
    _what_is_not_there(client)
    own_box.until(
        "events have come", lambda: "TASK_KILLED" in [e.task_status for e in events.of("status_update_event")]
    )
    assert {event.app_definition["id"] for event in events.of("api_post_event")} >= {"/web", "/big"}
    assert events.of("group_change_success")


def _server(client: Any) -> None:
    assert client.ping() == b'"pong"'
    info = client.get_info()
    assert (info.name, info.marathon_config.mesos_role) == ("marathon", "slave_public")
    assert "gpu_resources" in info.marathon_config.features
    assert client.get_leader()["leader"] == info.leader
    assert client.get_metrics()["version"]


def _apps(box: LiveBox, client: Any) -> None:
    created = client.create_app("web", small(gpus=1, labels={"a": "b"}))
    assert (created.id, created.gpus) == ("/web", 1)
    with pytest.raises(errors.ConflictError):
        client.create_app("web", small())
    _until_running(box, client, 1)
    (found,) = client.list_apps(label="a==b", embed_tasks=True, embed_counts=True, embed_last_task_failure=True)
    assert found.tasks_running == 1
    assert client.list_apps(label="a!=b") == []
    client.scale_app("web", delta=1)
    _until_running(box, client, 2)
    client.update_app("web", models.MarathonApp(labels={"x": "y"}))
    _until_running(box, client, 2)
    newest, *_, oldest = client.list_versions("web")
    assert newest > oldest
    assert client.get_version("web", oldest).labels == {"a": "b"}
    client.rollback_app("web", oldest)
    _until_running(box, client, 1)
    before = client.list_tasks("web")[0].id
    client.restart_app("web")
    _until_running(box, client, 1)
    assert client.list_tasks("web")[0].id != before
    client.update_apps([small(id="/m1", instances=0), small(id="/m2", instances=0)])
    assert {app.id for app in client.list_apps()} == {"/web", "/m1", "/m2"}
    docker = small(gpus=1)
    docker.container = models.container.MarathonContainer(docker={"image": "i"}, type="DOCKER")
    with pytest.raises(errors.MarathonHttpError) as refused:
        client.create_app("bad", docker)
    assert "GPU resources only work" in str(refused.value.error_details)


def _tasks(box: LiveBox, client: Any) -> None:
    (task,) = client.list_tasks()
    assert (task.app_id, task.state, task.id) == ("/web", "TASK_RUNNING", client.list_tasks("web")[0].id)
    (endpoint,) = client.list_endpoints()
    assert (endpoint.task_id, endpoint.task_port) == (task.id, task.ports[0])
    assert client.kill_task("web", task.id).id == task.id
    box.until("another took its place", lambda: [t.id for t in client.list_tasks("web")] != [task.id])
    _until_running(box, client, 1)
    assert [killed.app_id for killed in client.kill_tasks("web")] == ["/web"]
    _until_running(box, client, 1)
    assert client.kill_given_tasks([t.id for t in client.list_tasks("web")], scale=True)
    _until_running(box, client, 0)
    assert client.get_app("web").instances == 0


def _deployments_and_the_queue(box: LiveBox, client: Any) -> None:
    client.create_app("big", small(gpus=8))
    (deployment,) = client.list_deployments()
    assert deployment.affected_apps == ["/big"]
    client.reset_delay("big")
    client.delete_deployment(deployment.id)
    box.until("it is undone", lambda: "/big" not in [app.id for app in client.list_apps()])


def _groups(box: LiveBox, client: Any) -> None:
    client.create_group(models.MarathonGroup(id="/g", apps=[small(id="a")]))
    box.until("the group is there", lambda: not client.list_deployments())
    assert [app["id"] for app in box.marathon("/v2/groups/g")["apps"]] == ["/g/a"]
    with pytest.raises(TypeError, match="enforce_role"):
        client.get_group("g")  # it knows no group of Marathon 1.9 or newer
    client.scale_group("g", 2)
    assert client.get_app("g/a").instances == 2
    client.update_group("g", models.MarathonGroup(id="/g", apps=[small(id="/g/a", instances=0)]), force=True)
    assert client.get_app("g/a").instances == 0
    client.delete_group("g", force=True)
    assert client.list_groups() == []


def _what_is_not_there(client: Any) -> None:
    for app in client.list_apps():
        client.delete_app(app.id, force=True)
    with pytest.raises(errors.NotFoundError):
        client.get_app("web")
    with pytest.raises(errors.NotFoundError):
        client.list_event_subscriptions()
