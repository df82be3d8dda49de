"""The Grafana dashboard of examples/: Debian's Prometheus scrapes an agent and evaluates every expression in it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.agent.live import LiveAgent, live_agent
from tests.support.places import ROOT
from tests.support.ports import free_port

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

DASHBOARD = json.loads((ROOT / "examples" / "grafana-gpus.json").read_text())


def expressions() -> dict[str, str]:
    """Return what the panels ask for, by panel and letter, with Grafana's variables filled in as for All."""
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    }
    return {name: text.replace("$host", ".*").replace("$task", ".*") for name, text in found.items()}


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    program = shutil.which("prometheus", path="/usr/sbin:/usr/bin:/usr/local/bin")
    assert program is not None, "needs prometheus: apt-get install prometheus"
    scrape = {"job_name": "agents", "static_configs": [{"targets": [target]}]}
    times = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
    (folder / "prometheus.json").write_text(json.dumps({"global": times, "scrape_configs": [scrape]}))  # JSON is YAML
    port = free_port()
    words = [f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        command = [program, *words, f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        process.terminate()
        process.wait(60)


async def asked(session: aiohttp.ClientSession, url: str, **query: str) -> Any:
    """Return what Prometheus says; None while it does not listen yet."""
    try:
        async with session.get(url, params=query) as answer:
            document = None if answer.status == 503 else await answer.json()
    except aiohttp.ClientConnectionError:
        return None
    if document is None:  # it has just begun
        return None
    assert document["status"] == "success", document
    return document["data"]


@asynccontextmanager
async def settled(agent: LiveAgent, tmp_path: Path) -> AsyncIterator[str]:
    """Have a task hold a GPU, a door another, and a third be ill; yield where the agent answers."""
    agent.run("train", "exec sleep 600", gpus=1)
    await agent.reaches("train", "TASK_RUNNING")
    url = f"http://127.0.0.1:{agent.port}"
    keys = {"door": "docker", "holder": "web", "count": 1, "pid": 1}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/gpus/leases", json=keys) as answer:
        assert answer.status == 201, await answer.text()
        lease = (await answer.json())["id"]
    (tmp_path / "faults").write_text("3 48\n")
    try:
        yield url
    finally:
        async with aiohttp.ClientSession() as session:
            await session.delete(f"{url}/gpus/leases/{lease}")


async def test_every_expression_of_the_dashboard_has_numbers(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted, folder = expressions(), tmp_path_factory.mktemp("prometheus")
    assert len(wanted) >= 10
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(live_agent(tmp_path, f"--simulated_gpu_faults={tmp_path / 'faults'}"))
        url = await stack.enter_async_context(settled(agent, tmp_path))
        api = stack.enter_context(prometheus(folder, url.removeprefix("http://")))
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def empty() -> str:
            found = {name: await asked(session, f"{api}/query", query=text) for name, text in wanted.items()}
            return f"without a number: {[name for name, data in found.items() if not data or not data['result']]}"

        await agent.until_async(empty, "without a number: []")
        (held,) = (await asked(session, f"{api}/query", query='DCGM_FI_DEV_FB_USED{pod="train"}'))["result"]
        for legend in ("Hostname", "gpu", "pod"):
            assert held["metric"][legend], f"the panels' legends have {legend}"
        (ill,) = (await asked(session, f"{api}/query", query="DCGM_FI_DEV_XID_ERRORS > 0"))["result"]
        assert (ill["metric"]["gpu"], ill["value"][1]) == ("3", "48")
        # What the variables of the dashboard are filled from.
        for variable in DASHBOARD["templating"]["list"]:
            if variable["query"].startswith("label_values("):
                name, label = variable["query"].removeprefix("label_values(").rstrip(")").split(", ")
                values = await asked(session, f"{api}/label/{label}/values", **{"match[]": name})
                assert values, variable["name"]
