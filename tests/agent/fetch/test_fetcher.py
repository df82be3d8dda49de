"""The fetcher, with real servers on this machine."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import ssl
import tarfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mesos_gpu.agent.fetch import archives
from mesos_gpu.errors import ContainerError
from tests.support.agent.fetching import Work
from tests.support.golden import Golden
from tests.support.tls import Authority


class Source:
    """A web server that counts, and can hold its answers back."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.asked_for = asyncio.Event()
        self.says_length = True
        app = web.Application()
        app.router.add_get("/{name}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.asked[f"{request.method} {name}"] += 1
        if name not in self.files:
            return web.Response(status=404)
        if request.method == "GET":
            self.asked_for.set()
            await self.go_on.wait()
        if self.says_length:
            return web.Response(body=self.files[name])
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(self.files[name])
        return response

    def url(self, name: str) -> str:
        return str(self.server.make_url(f"/{name}"))


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    found = Source()
    async with found.server:
        yield found


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def packed(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


async def test_files_come_unpacked_executable_or_renamed(work: Work, source: Source) -> None:
    source.files = {"a.tgz": packed(one=b"1"), "run.gz": b"program", "m.gz": gzip.compress(b"model"), "x": b"x"}
    (work.folder / "local").write_text("local")
    sandbox = await work.fetch(
        source.url("a.tgz"),
        {"value": source.url("run.gz"), "executable": True},
        {"value": source.url("m.gz"), "extract": False, "output_file": "deep/er/m.gz"},
        source.url("m.gz"),
        {"value": source.url("x") + "?key=1", "output_file": "y"},
        str(work.folder / "local"),
    )
    assert work.files() == ["a.tgz", "deep/er/m.gz", "local", "m", "m.gz", "one", "run.gz", "stderr", "y"]
    assert (sandbox / "one").read_bytes() == b"1"
    assert (sandbox / "m").read_bytes() == b"model"
    assert os.access(sandbox / "run.gz", os.X_OK)
    assert (sandbox / "local").read_text() == "local"
    said = (sandbox / "stderr").read_text()
    assert source.url("a.tgz") in said
    assert f"{sandbox}/a.tgz" in said
    assert work.fetcher.metrics()["containerizer/fetcher/task_fetches_succeeded"] == 1.0


@pytest.mark.parametrize(
    "uri",
    [
        "/no/such/file",
        "/dev/zero",
        "relative",
        "{}/missing",
        "http://127.0.0.1:1/x",
    ],
)
async def test_a_failure_has_the_words_of_mesos_and_the_sandbox_says_why(
    work: Work, source: Source, uri: str, golden: Golden
) -> None:
    uri = uri.replace("{}", source.url("").rstrip("/"))
    with pytest.raises(ContainerError) as caught:
        await work.fetch(uri)
    assert str(caught.value) == golden
    assert report(work) == golden
    assert work.files() == ["stderr"]
    assert work.fetcher.metrics()["containerizer/fetcher/task_fetches_failed"] == 1.0


def report(work: Work, name: str = "s") -> str:
    """Return the fetcher's last line in the sandbox, without its time and process."""
    return (work.sandbox(name) / "stderr").read_text().splitlines()[-1].partition("] ")[2]


async def test_a_download_without_data_fails_and_leaves_nothing(tmp_path: Path, source: Source, golden: Golden) -> None:
    work = Work(tmp_path, stall_timeout_s=0.1)
    source.files = {"x": b"x"}
    source.go_on.clear()
    with pytest.raises(ContainerError):
        await work.fetch(source.url("x"))
    source.go_on.set()
    assert report(work) == golden
    assert work.files() == ["stderr"]


async def test_a_cached_file_is_downloaded_once_however_many_want_it(work: Work, source: Source) -> None:
    source.files = {"a.tgz": packed(one=b"1")}
    uri = {"value": source.url("a.tgz"), "cache": True}
    source.go_on.clear()
    fetches = [asyncio.ensure_future(work.fetch(uri, name=f"s{number}")) for number in range(5)]
    await source.asked_for.wait()
    source.go_on.set()
    await asyncio.gather(*fetches)
    await work.fetch(uri, name="later")
    assert source.asked["GET a.tgz"] == 1
    for name in ("s0", "s4", "later"):
        assert work.files(name) == ["one", "stderr"]  # the archive stays in the cache
    assert work.cache.used_bytes == len(source.files["a.tgz"])
    await work.fetch(uri, name="other", user="root")
    assert source.asked["GET a.tgz"] == 2  # each user has his own


async def test_the_cache_stays_within_its_size_and_the_least_recently_used_goes(tmp_path: Path, source: Source) -> None:
    work = Work(tmp_path, cache_bytes=250)
    source.files = {name: name.encode() * 100 for name in "abc"} | {"big": b"b" * 300}
    uris = {name: {"value": source.url(name), "cache": True} for name in source.files}
    for name in ("a", "b", "a", "c"):
        await work.fetch(uris[name], name=name)
        assert work.cache.used_bytes <= 250
    await work.fetch(uris["a"], name="again")
    assert (source.asked["GET a"], source.asked["GET b"]) == (1, 1)
    await work.fetch(uris["b"], name="again")
    assert source.asked["GET b"] == 2
    sandbox = await work.fetch(uris["big"], name="big")
    assert (sandbox / "big").read_bytes() == source.files["big"]
    kept = sum(path.stat().st_size for path in (tmp_path / "cache").iterdir())
    assert kept == work.cache.used_bytes <= 250


async def test_a_server_that_tells_no_length_is_fetched_past_the_cache(work: Work, source: Source) -> None:
    source.files, source.says_length = {"x": b"content"}, False
    sandbox = await work.fetch({"value": source.url("x"), "cache": True})
    assert (sandbox / "x").read_bytes() == b"content"
    assert work.cache.used_bytes == 0


async def test_a_failed_download_is_tried_again_by_the_next(work: Work, source: Source) -> None:
    uri = {"value": source.url("x"), "cache": True}
    with pytest.raises(ContainerError):
        await work.fetch(uri)
    source.files = {"x": b"now"}
    assert ((await work.fetch(uri, name="next")) / "x").read_bytes() == b"now"


async def test_a_task_that_is_killed_leaves_nothing_and_the_others_get_theirs(work: Work, source: Source) -> None:
    source.files = {"x": b"x", "y": b"y"}
    source.go_on.clear()
    uris = ({"value": source.url("x"), "cache": True}, source.url("y"))
    killed = asyncio.ensure_future(work.fetch(*uris, name="killed"))
    stays = asyncio.ensure_future(work.fetch(uris[0], name="stays"))
    await source.asked_for.wait()
    killed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killed
    assert work.files("killed") == ["stderr"]
    source.go_on.set()
    assert ((await stays) / "x").read_bytes() == b"x"
    assert source.asked["GET x"] == 1
    source.go_on.clear()
    source.asked_for.clear()
    alone = asyncio.ensure_future(work.fetch({"value": source.url("y"), "cache": True}, name="alone"))
    await source.asked_for.wait()
    alone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await alone
    assert len(list((work.folder / "cache").iterdir())) == 1  # x, nothing of y
    source.go_on.set()


async def test_the_disk_is_not_filled(
    work: Work, source: Source, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    source.files = {"x": b"x"}
    monkeypatch.setattr(archives, "KEEP_FREE_BYTES", 1 << 60)
    with pytest.raises(ContainerError):
        await work.fetch(source.url("x"))
    assert report(work) == golden


async def test_links_of_one_archive_do_not_lead_the_next_file_elsewhere(
    work: Work, source: Source, golden: Golden
) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        link = tarfile.TarInfo("x.gz")
        link.type, link.linkname = tarfile.SYMTYPE, str(work.folder / "secret.gz")
        archive.addfile(link)
    (work.folder / "secret.gz").write_bytes(gzip.compress(b"secret"))
    source.files = {"a.tar": stream.getvalue(), "x.gz": gzip.compress(b"mine")}
    with pytest.raises(ContainerError):
        await work.fetch(source.url("a.tar"), source.url("x.gz"))
    assert report(work) == golden
    assert "x" not in work.files()


@asynccontextmanager
async def ftp_server(files: dict[str, bytes], tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """As much of RFC 959, 2428 and 4217 as one download needs; with `tls` both connections begin with it."""

    sessions: list[asyncio.Task[None]] = []

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        sessions.append(task)
        waiting: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        passive: asyncio.Server | None = None
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            word, _, argument = line.decode().strip().partition(" ")
            if word in ("EPSV", "PASV"):
                passive = await asyncio.start_server(lambda _, data: waiting.put_nowait(data), "127.0.0.1", 0, ssl=tls)
                port = passive.sockets[0].getsockname()[1]
                writer.write(f"227 (127,0,0,1,{port >> 8},{port & 255})\r\n".encode())
            elif word == "RETR":
                writer.write(b"150 here\r\n" if argument in files else b"550 no such file\r\n")
                data = await waiting.get()
                data.write(files.get(argument, b""))
                data.close()
                await data.wait_closed()
                if argument in files:
                    writer.write(b"226 done\r\n")
            else:
                codes = {"USER": b"331 word?", "PASS": b"230 in", "TYPE": b"200 ok", "QUIT": b"221 bye"}
                codes |= {"PBSZ": b"200 0", "PROT": b"200 private"}
                writer.write(codes.get(word, b"550 no") + b"\r\n")
        if passive is not None:
            passive.close()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(session, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*sessions)


async def test_ftp(work: Work) -> None:
    async with ftp_server({"pub/model": b"m" * 300_000}) as port:
        sandbox = await work.fetch(f"ftp://me:word@127.0.0.1:{port}/pub/model")
        assert (sandbox / "model").read_bytes() == b"m" * 300_000
        with pytest.raises(ContainerError):
            await work.fetch(f"ftp://127.0.0.1:{port}/pub/other", name="none")
        assert "550" in (work.sandbox("none") / "stderr").read_text()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("ca"))
    made.issue("node")
    made.issue("expired", expired=True)
    made.issue("far", kind="elsewhere")
    return made


def context(authority: Authority, name: str = "node") -> ssl.SSLContext:
    folder = authority.certificate.parent
    return authority.server_context(folder / f"{name}.pem", folder / f"{name}.key")


async def test_over_tls_what_a_trusted_server_has_is_fetched_and_nothing_else(
    work: Work, authority: Authority, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    async def refused(uri: str, name: str) -> None:
        with pytest.raises(ContainerError):
            await work.fetch(uri, name=name)
        assert report(work, name) == golden
        assert work.files(name) == ["stderr"]

    for name, trusted in (("expired", True), ("far", True), ("node", False), ("node", True)):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate if trusted else work.folder / "none.pem"))
        source = Source()
        source.files["model"] = b"m" * 300_000
        await source.server.start_server(ssl=context(authority, name))
        try:
            assert source.url("model").startswith("https://")
            if name != "node" or not trusted:
                await refused(source.url("model"), f"{name}{trusted}")
                assert not source.asked, "it was asked for nothing"
            else:
                assert (await work.fetch(source.url("model")) / "model").read_bytes() == b"m" * 300_000
                cached = {"value": source.url("model"), "cache": True, "output_file": "cached"}
                assert (await work.fetch(cached) / "cached").read_bytes() == b"m" * 300_000
        finally:
            await source.server.close()


async def test_ftps_begins_with_tls_and_its_server_is_verified(
    work: Work, authority: Authority, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    async with ftp_server({"pub/model": b"m" * 300_000}, context(authority)) as port:
        sandbox = await work.fetch(f"ftps://me:word@127.0.0.1:{port}/pub/model")
        assert (sandbox / "model").read_bytes() == b"m" * 300_000
    monkeypatch.setenv("SSL_CERT_FILE", str(work.folder / "none.pem"))
    async with ftp_server({}, context(authority)) as port:
        with pytest.raises(ContainerError):
            await work.fetch(f"ftps://me:word@127.0.0.1:{port}/pub/model", name="none")
        assert report(work, "none") == golden
