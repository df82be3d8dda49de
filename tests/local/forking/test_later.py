"""What is read later in services of a box is there all the same when it is used; each in a Python of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tls import Authority

CONNECT = """
import asyncio, ssl, sys
from mesos_gpu.local.forking.later import CertificatesLater, read_without
read_without()
import aiohttp
from aiohttp import connector, web

contexts = connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED
for context in contexts:
    assert type(context) is CertificatesLater and not context.get_ca_certs(), context
assert contexts[0].verify_mode is ssl.CERT_REQUIRED and contexts[0].check_hostname

async def main():
    app = web.Application()
    async def hello(request):
        return web.Response(text="hello")
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*sys.argv[1:3])
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.get(f"https://localhost:{port}/") as answer:
                    print(await answer.text())
    except aiohttp.ClientConnectorCertificateError:
        print("refused")
    async with aiohttp.ClientSession() as session, session.get(f"https://localhost:{port}/", ssl=False) as answer:
        print("unverified", answer.status)
    await runner.cleanup()

asyncio.run(main())
assert all(type(context) is ssl.SSLContext for context in contexts)
assert type(ssl.create_default_context()) is ssl.SSLContext and ssl.create_default_context().get_ca_certs()
"""
NAMES = """
import sys
from mesos_gpu.local.forking.later import read_without
read_without()
import html
assert "html.entities" not in sys.modules
print(html.escape("<&>"), html.unescape("&lt;&euro;&notit;&#65;&nonsense;"), "html.entities" in sys.modules)
import html.entities, html.parser
assert html.entities.html5["lt;"] == "<" and type(html.entities.html5) is dict
read_without()
"""


def told(program: str, *words: str, **variables: str) -> list[str]:
    command = [sys.executable, "-c", program, *words]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("trusted", "answers"), [("ours", ["hello", "hello"]), ("others", ["refused"])])
def test_certificates_of_authorities_are_read_for_the_first_connection(
    tmp_path: Path, trusted: str, answers: list[str]
) -> None:
    authorities = {name: Authority(tmp_path / name) for name in ("ours", "others")}
    certificate, key = authorities["ours"].issue("server")
    file = str(authorities[trusted].certificate)
    assert told(CONNECT, str(certificate), str(key), SSL_CERT_FILE=file) == [*answers, "unverified 200"]


def test_names_of_characters_are_read_when_one_is_looked_up() -> None:
    assert told(NAMES) == ["&lt;&amp;&gt; <€¬it;A&nonsense; True"]
