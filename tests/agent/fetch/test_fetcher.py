"""The fetcher, with real servers on this machine."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import ssl
import stat
import tarfile
import threading
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mesos_gpu.agent.fetch import archives
from mesos_gpu.agent.fetch.archives import unpack
from mesos_gpu.agent.model.fetch_uris import Archive
from mesos_gpu.container.host.task_files import FileRights, OpenFile, TaskFiles, open_task_files
from mesos_gpu.container.host.users import find_user
from mesos_gpu.errors import BadInput, ContainerError
from tests.fakes.local_files import OwnFiles
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


Fill = Callable[[tarfile.TarFile], None]


def tar(path: Path, fill: Fill, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        fill(archive)
    return path


def put(archive: tarfile.TarFile, name: str, content: bytes = b"x", **more: object) -> None:
    member = tarfile.TarInfo(name)
    for field, value in more.items():
        setattr(member, field, value)
    member.size = len(content) if member.isreg() else 0
    archive.addfile(member, io.BytesIO(content))


def good(archive: tarfile.TarFile) -> None:
    put(archive, "app", type=tarfile.DIRTYPE, mode=0o755)
    put(archive, "app/run", b"#!/bin/sh\n", mode=0o6755)
    put(archive, "app/again", type=tarfile.LNKTYPE, linkname="app/run")
    put(archive, "app/link", type=tarfile.SYMTYPE, linkname="/anywhere")
    put(archive, "./deep/er/file", b"deep")
    put(archive, "/absolute", b"absolute")


def into(tmp_path: Path) -> Path:
    folder = tmp_path / "sandbox"
    folder.mkdir(exist_ok=True)
    return folder


def open_up(kind: Archive, path: Path, folder: Path, name: str | None = None) -> None:
    unpack(kind, path, name or path.name, folder, threading.Event())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_is_unpacked_whatever_its_compression(tmp_path: Path, mode: str) -> None:
    folder = into(tmp_path)
    (folder / "absolute").write_text("was there before")
    open_up("tar", tar(tmp_path / "a.tar", good, mode), folder)
    assert (folder / "app/run").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((folder / "app/run").stat().st_mode) == 0o755
    assert (folder / "app/again").samefile(folder / "app/run")
    assert str((folder / "app/link").readlink()) == "/anywhere"
    assert (folder / "deep/er/file").read_bytes() == b"deep"
    assert (folder / "absolute").read_bytes() == b"absolute"


def test_a_zip_and_a_lone_gzip_are_unpacked(tmp_path: Path) -> None:
    folder = into(tmp_path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        program = zipfile.ZipInfo("bin/run")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, "run")
        link = zipfile.ZipInfo("bin/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "run")
        archive.writestr("folder/", "")
    open_up("zip", tmp_path / "a.zip", folder)
    assert stat.S_IMODE((folder / "bin/run").stat().st_mode) == 0o755
    assert (folder / "bin/link").read_text() == "run"
    assert (folder / "folder").is_dir()
    (tmp_path / "c1").write_bytes(gzip.compress(b"model"))
    open_up("gzip", tmp_path / "c1", folder, "model.bin.gz")
    assert (folder / "model.bin").read_bytes() == b"model"


def over_a_link(archive: tarfile.TarFile) -> None:
    put(archive, "out", type=tarfile.SYMTYPE, linkname="..")
    put(archive, "out/evil")


def over_a_link_to_a_link(archive: tarfile.TarFile) -> None:
    put(archive, "one", type=tarfile.SYMTYPE, linkname="two")
    put(archive, "two", type=tarfile.SYMTYPE, linkname="/tmp")
    put(archive, "one/deep/evil")


def hard_link_to_outside(archive: tarfile.TarFile) -> None:
    put(archive, "out", type=tarfile.SYMTYPE, linkname="..")
    put(archive, "mine", type=tarfile.LNKTYPE, linkname="out/secret")


def hard_link_to_a_link(archive: tarfile.TarFile) -> None:
    put(archive, "out", type=tarfile.SYMTYPE, linkname="../secret")
    put(archive, "mine", type=tarfile.LNKTYPE, linkname="out")


@pytest.mark.parametrize(
    "fill",
    [
        lambda archive: put(archive, "../evil"),
        lambda archive: put(archive, "a/../../evil"),
        lambda archive: put(archive, "pipe", type=tarfile.FIFOTYPE),
        lambda archive: put(archive, "disk", type=tarfile.BLKTYPE, devmajor=8),
        over_a_link,
        over_a_link_to_a_link,
        hard_link_to_outside,
        hard_link_to_a_link,
        lambda archive: put(archive, "mine", type=tarfile.LNKTYPE, linkname="nothing"),
    ],
)
def test_an_archive_that_wants_out_is_refused(tmp_path: Path, fill: Fill) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = into(tmp_path)
    with pytest.raises(BadInput):
        open_up("tar", tar(tmp_path / "a.tar", fill), folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "sandbox", "secret"]
    assert not Path("/tmp/deep").exists()


def test_a_file_in_the_place_of_a_link_does_not_write_through_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    def fill(archive: tarfile.TarFile) -> None:
        put(archive, "link", type=tarfile.SYMTYPE, linkname="../secret")
        put(archive, "link", b"mine")

    open_up("tar", tar(tmp_path / "a.tar", fill), into(tmp_path))
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "sandbox/link").read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["tar", "zip", "gzip"])
def test_what_is_no_archive_or_cut_short_is_refused(tmp_path: Path, kind: Archive) -> None:
    (tmp_path / "a").write_bytes(b"not an archive at all" * 100)
    with pytest.raises(BadInput):
        open_up(kind, tmp_path / "a", into(tmp_path))
    whole = tar(tmp_path / "b.tar.gz", lambda archive: put(archive, "f", bytes(range(256)) * 4096), "w:gz").read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput):
        open_up("tar", tmp_path / "b.tar.gz", into(tmp_path))


def test_a_bomb_does_not_fill_the_disk_and_a_kill_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    path = tar(tmp_path / "a.tar.gz", lambda archive: put(archive, "zeros", bytes(8 << 20)), "w:gz")
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(ContainerError) as refused:
        unpack("tar", path, "a.tar.gz", into(tmp_path), stopped)
    assert str(refused.value) == golden
    monkeypatch.setattr(archives, "KEEP_FREE_BYTES", 1 << 60)
    with pytest.raises(ContainerError) as refused:
        open_up("tar", path, into(tmp_path))
    assert str(refused.value) == golden
    monkeypatch.setattr(archives, "KEEP_FREE_BYTES", 0)
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    with pytest.raises(BadInput) as refused:
        open_up("tar", tar(tmp_path / "b.tar", good), into(tmp_path))
    assert str(refused.value) == golden


async def test_frameworks_home_is_where_relative_paths_are(tmp_path: Path) -> None:
    work = Work(tmp_path, frameworks_home=str(tmp_path))
    (tmp_path / "tool").write_text("tool")
    assert ((await work.fetch("tool")) / "tool").read_text() == "tool"


async def test_a_local_file_is_cached_as_it_is_and_again_when_it_has_changed(work: Work) -> None:
    path = work.folder / "model"
    uri = {"value": str(path), "cache": True}
    for number, content in enumerate(("first", "second", "")):
        path.write_text(content)
        for turn in "ab":
            sandbox = await work.fetch(uri, name=f"{number}{turn}")
            assert (sandbox / "model").read_text() == content
    assert work.cache.used_bytes == len("first") + len("second"), "an empty file is not cached"


async def test_a_file_that_grows_is_cached_as_long_as_it_was(tmp_path: Path) -> None:
    work, path = Work(tmp_path), tmp_path / "log"
    path.write_text("lines")

    class Growing(OwnFiles):
        async def open(self, path: str) -> OpenFile:
            return GrowingFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    class GrowingFile(OpenFile):
        """Grows after its size was asked for, which is when it is read."""

        reads = 0

        @property
        def descriptor(self) -> int:
            self.reads += 1
            if self.reads > 2:
                with path.open("a") as file:
                    file.write("more")
            return self._descriptor

        @descriptor.setter
        def descriptor(self, value: int) -> None:
            self._descriptor = value

    @asynccontextmanager
    async def growing() -> AsyncIterator[OwnFiles]:
        yield Growing()

    work.local_files = growing
    sandbox = await work.fetch({"value": str(path), "cache": True})
    assert (sandbox / "log").read_text() == "lines"
    assert work.cache.used_bytes == len("lines")


@asynccontextmanager
async def files_of_nobody() -> AsyncIterator[TaskFiles]:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        async with open_task_files(FileRights(find_user("nobody")), root, None) as files:
            yield files
    finally:
        os.close(root)


@pytest.mark.root
async def test_a_user_gets_what_he_may_read_and_owns_it(work: Work) -> None:
    work.folder.chmod(0o755)
    for folder in work.folder.parents:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/") and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    packed = str(work.folder / "a.tgz")
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(__file__, "one")
    (work.folder / "secret").write_text("secret")
    (work.folder / "secret").chmod(0o600)
    (work.folder / "open").write_text("open")
    work.local_files = files_of_nobody
    sandbox = await work.fetch(packed, str(work.folder / "open"), user="nobody")
    assert {path.owner() for path in (sandbox, *sandbox.iterdir())} == {"nobody"}
    with pytest.raises(ContainerError):
        await work.fetch(str(work.folder / "secret"), name="denied", user="nobody")
    assert work.files("denied") == ["stderr"]
