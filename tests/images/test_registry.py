from __future__ import annotations

import base64
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from mesos_gpu.errors import BadFlag, ImageError
from mesos_gpu.images.blobs import Partial
from mesos_gpu.images.credentials import Credentials, DockerConfig
from mesos_gpu.images.manifest import Descriptor
from mesos_gpu.images.reference import ImageReference
from mesos_gpu.images.registry import DOCKER_HUB_URL, Patience, Registry
from tests.images.scripted import ScriptedRegistry, serving, status
from tests.support.golden import Golden
from tests.support.images.build import BuiltImage, Layer, cuda_image, file, sha256, tar_of
from tests.support.images.registry import PASSWORD, USER, RealRegistry
from tests.support.tls import Authority

IMPATIENT = Patience(connect_s=5, silence_s=5, tries=3, pause_s=0.001)
CUDA = ImageReference.parse("nvidia/cuda")
IMAGE = BuiltImage((Layer(tar_of(file("random", random.Random(1).randbytes(300_000)))),))
BLOB = IMAGE.layers[0].blob
WANTED = Descriptor(sha256(BLOB), len(BLOB))


@asynccontextmanager
async def open_registry(
    url: str, config: DockerConfig | None = None, patience: Patience = IMPATIENT
) -> AsyncIterator[Registry]:
    registry = Registry(url, config=config, patience=patience)
    try:
        yield registry
    finally:
        await registry.close()


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedRegistry]:
    async with serving(ScriptedRegistry(IMAGE)) as registry:
        yield registry


async def get_blob(registry: Registry, path: Path, wanted: Descriptor = WANTED) -> list[int]:
    """Download to path; return the sizes that were told."""
    told: list[int] = []
    partial = Partial(path, wanted)
    try:
        await registry.blob(CUDA, wanted, partial, told.append)
    finally:
        partial.close()
    return told


async def test_an_image_is_read_from_a_real_registry(shared_registry: RealRegistry, tmp_path: Path) -> None:
    image = cuda_image()
    shared_registry.push("real/cuda:12", image)
    reference = ImageReference.parse("real/cuda:12")
    async with open_registry(shared_registry.url) as registry:
        document = await registry.manifest(reference)
        assert (document.data, document.media_type, document.digest) == (image.manifest, image.media_type, image.digest)
        assert await registry.manifest(reference, image.digest) == document
        by_digest = ImageReference.parse(f"real/cuda@{image.digest}")
        assert (await registry.manifest(by_digest)).digest == image.digest
        blob = image.layers[0].blob
        partial = Partial(tmp_path / "blob", Descriptor(sha256(blob), len(blob)))
        await registry.blob(reference, partial.blob, partial, lambda _: None)
        partial.close()
        assert (tmp_path / "blob").read_bytes() == blob


async def test_a_real_registry_over_tls_is_read_where_its_authority_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    authority = Authority(tmp_path / "ca")
    image, reference, blob = cuda_image(), ImageReference.parse("real/cuda:12"), cuda_image().layers[0].blob
    with RealRegistry(tmp_path / "registry") as plain:
        plain.push("real/cuda:12", image)
    with RealRegistry(tmp_path / "registry", tls=authority.issue("node")) as secure:
        assert secure.url.startswith("https://")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
        async with open_registry(secure.url) as registry:
            with pytest.raises(ImageError) as refused:
                await registry.manifest(reference)
        assert str(refused.value) == golden
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        async with open_registry(secure.url) as registry:
            assert (await registry.manifest(reference)).digest == image.digest
            partial = Partial(tmp_path / "blob", Descriptor(sha256(blob), len(blob)))
            await registry.blob(reference, partial.blob, partial, lambda _: None)
            partial.close()
    assert (tmp_path / "blob").read_bytes() == blob


async def test_a_download_goes_on_where_it_stopped_in_a_real_registry(
    shared_registry: RealRegistry, tmp_path: Path
) -> None:
    shared_registry.push("nvidia/cuda", IMAGE)
    (tmp_path / "blob").write_bytes(BLOB[:100_000])
    async with open_registry(shared_registry.url) as registry:
        told = await get_blob(registry, tmp_path / "blob")
    assert told[0] > 100_000
    assert (tmp_path / "blob").read_bytes() == BLOB


async def test_user_and_password_open_a_real_registry(tmp_path: Path, golden: Golden) -> None:
    with RealRegistry(tmp_path / "registry", login=True) as real:
        real.push("nvidia/cuda", IMAGE)
        config = DockerConfig({real.host: Credentials(USER, PASSWORD)})
        async with open_registry(real.url, config) as registry:
            assert (await registry.manifest(CUDA)).digest == IMAGE.digest
        async with open_registry(real.url) as registry:
            with pytest.raises(ImageError) as refused:
                await registry.manifest(CUDA)
            assert str(refused.value) == golden
        wrong = DockerConfig({real.host: Credentials(USER, "wrong")})
        async with open_registry(real.url, wrong) as registry:
            with pytest.raises(ImageError, match="--docker_config"):
                await registry.manifest(CUDA)


@pytest.mark.parametrize("name", ["nvidia/nothing", "nvidia/cuda:nothing"])
async def test_an_unknown_image_is_named(shared_registry: RealRegistry, name: str, golden: Golden) -> None:
    async with open_registry(shared_registry.url) as registry:
        with pytest.raises(ImageError) as refused:
            await registry.manifest(ImageReference.parse(name))
        assert str(refused.value) == golden


async def test_a_registry_that_is_down_is_named(golden: Golden) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        async with open_registry(f"http://{host}") as registry:
            with pytest.raises(ImageError) as refused:
                await registry.manifest(CUDA)
            assert str(refused.value) == golden


async def test_a_registry_that_is_silent_is_given_up(scripted: ScriptedRegistry, golden: Golden) -> None:
    scripted.before = [scripted.never] * 3
    async with open_registry(scripted.url, patience=replace(IMPATIENT, silence_s=0.05)) as registry:
        with pytest.raises(ImageError) as refused:
            await registry.manifest(CUDA)
        assert str(refused.value) == golden


@pytest.mark.parametrize("code", [408, 429, 500, 503])
async def test_passing_troubles_are_tried_again(scripted: ScriptedRegistry, code: int) -> None:
    scripted.before = [status(code), status(code)]
    async with open_registry(scripted.url) as registry:
        assert (await registry.manifest(CUDA)).digest == IMAGE.digest


async def test_lasting_troubles_are_told(scripted: ScriptedRegistry, golden: Golden) -> None:
    scripted.before = [status(503)] * 9
    async with open_registry(scripted.url) as registry:
        with pytest.raises(ImageError) as refused:
            await registry.manifest(CUDA)
        assert str(refused.value) == golden
    assert len(scripted.seen) == 3


async def test_a_broken_download_goes_on_and_progress_is_told(scripted: ScriptedRegistry, tmp_path: Path) -> None:
    scripted.break_after = [50_000, 1, 100_000, 7, 9]
    async with open_registry(scripted.url) as registry:
        told = await get_blob(registry, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == BLOB
    assert told == sorted(told)
    assert told[-1] == len(BLOB)
    ranges = [headers.get("Range") for _, _, headers in scripted.seen]
    assert ranges[0] is None
    assert None not in ranges[1:]


async def test_downloads_that_bring_nothing_are_given_up(
    scripted: ScriptedRegistry, tmp_path: Path, golden: Golden
) -> None:
    scripted.break_after = [1000] + [0] * 9
    async with open_registry(scripted.url) as registry:
        with pytest.raises(ImageError) as refused:
            await get_blob(registry, tmp_path / "blob")
        assert str(refused.value) == golden
    assert (tmp_path / "blob").read_bytes() == BLOB[:1000]  # the next pull continues from here


async def test_a_registry_without_ranges_starts_again(scripted: ScriptedRegistry, tmp_path: Path) -> None:
    scripted.ranges, scripted.break_after = False, [50_000]
    async with open_registry(scripted.url) as registry:
        await get_blob(registry, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == BLOB


async def test_another_range_than_asked_for_is_not_taken(scripted: ScriptedRegistry, tmp_path: Path) -> None:
    async def shifted(_: web.Request) -> web.StreamResponse:
        return web.Response(status=206, body=BLOB[10:], headers={"Content-Range": f"bytes 10-{len(BLOB) - 1}/*"})

    (tmp_path / "blob").write_bytes(BLOB[:1000])
    scripted.before = [shifted]
    async with open_registry(scripted.url) as registry:
        await get_blob(registry, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == BLOB


@pytest.mark.parametrize("there", [b"x" * 1000, b"x" * len(BLOB), b"x" * (len(BLOB) + 5)])
async def test_a_damaged_partial_download_is_started_again(
    scripted: ScriptedRegistry, tmp_path: Path, there: bytes
) -> None:
    (tmp_path / "blob").write_bytes(there)
    async with open_registry(scripted.url) as registry:
        await get_blob(registry, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == BLOB


async def test_a_whole_download_is_not_asked_for_again(scripted: ScriptedRegistry, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(BLOB)
    async with open_registry(scripted.url) as registry:
        await get_blob(registry, tmp_path / "blob")
    assert scripted.seen == []


async def test_content_of_another_digest_is_refused(registry: RealRegistry, tmp_path: Path, golden: Golden) -> None:
    registry.push("nvidia/cuda", IMAGE)
    path = registry.blob_path(WANTED.digest)
    path.write_bytes(BLOB[:-1] + bytes([BLOB[-1] ^ 1]))
    async with open_registry(registry.url) as client:
        with pytest.raises(ImageError) as refused:
            await get_blob(client, tmp_path / "blob")
        assert str(refused.value) == golden


@pytest.mark.parametrize(
    "size",
    [len(BLOB) - 1, len(BLOB) + 1],
    ids=["smaller", "larger"],
)
async def test_a_blob_of_another_size_is_refused(
    scripted: ScriptedRegistry, tmp_path: Path, size: int, golden: Golden
) -> None:
    async with open_registry(scripted.url) as registry:
        with pytest.raises(ImageError) as refused:
            await get_blob(registry, tmp_path / "blob", Descriptor(WANTED.digest, size))
        assert str(refused.value) == golden


async def test_a_manifest_of_another_digest_is_refused(scripted: ScriptedRegistry, golden: Golden) -> None:
    async def lie(_: web.Request) -> web.StreamResponse:
        return web.Response(body=IMAGE.manifest + b" ", content_type=IMAGE.media_type)

    scripted.before = [lie]
    async with open_registry(scripted.url) as registry:
        with pytest.raises(ImageError) as refused:
            await registry.manifest(CUDA, IMAGE.digest)
        assert str(refused.value) == golden


async def test_an_endless_manifest_is_refused(scripted: ScriptedRegistry, golden: Golden) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * (1 << 20))

    scripted.before = [endless]
    async with open_registry(scripted.url) as registry:
        with pytest.raises(ImageError) as refused:
            await registry.manifest(CUDA)
        assert str(refused.value) == golden


async def test_a_token_is_fetched_once_and_again_when_it_ended(scripted: ScriptedRegistry, tmp_path: Path) -> None:
    scripted.token = "one"
    async with open_registry(scripted.url) as registry:
        await registry.manifest(CUDA)
        await get_blob(registry, tmp_path / "blob")
        assert scripted.token_queries == [{"service": "the service", "scope": "repository:nvidia/cuda:pull"}]
        scripted.token = "two"
        await registry.manifest(CUDA)
    assert len(scripted.token_queries) == 2


async def test_a_token_is_asked_for_with_user_and_password(scripted: ScriptedRegistry, golden: Golden) -> None:
    scripted.token, scripted.login = "one", "Basic " + base64.b64encode(b"me:secret").decode()
    host = scripted.url.removeprefix("http://")
    async with open_registry(scripted.url, DockerConfig({host: Credentials("me", "secret")})) as registry:
        await registry.manifest(CUDA)
    async with open_registry(scripted.url, DockerConfig({host: Credentials("me", "hidden")})) as registry:
        with pytest.raises(ImageError) as caught:
            await registry.manifest(CUDA)
    assert str(caught.value) == golden
    assert "hidden" not in str(caught.value)


async def test_an_identity_token_is_changed_for_an_access_token(scripted: ScriptedRegistry) -> None:
    scripted.token = "one"
    host = scripted.url.removeprefix("http://")
    async with open_registry(scripted.url, DockerConfig({host: Credentials(identity_token="id")})) as registry:
        await registry.manifest(CUDA)
    (query,) = scripted.token_queries
    assert (query["grant_type"], query["refresh_token"]) == ("refresh_token", "id")


async def test_a_redirect_to_another_host_does_not_get_our_token(scripted: ScriptedRegistry, tmp_path: Path) -> None:
    async with serving(ScriptedRegistry(IMAGE)) as elsewhere:
        scripted.token, scripted.blobs_at = "one", elsewhere.url
        async with open_registry(scripted.url) as registry:
            await get_blob(registry, tmp_path / "blob")
        ((_, _, headers),) = elsewhere.seen
        assert "Authorization" not in headers
    assert (tmp_path / "blob").read_bytes() == BLOB


async def test_a_refused_token_is_an_unknown_image(scripted: ScriptedRegistry, golden: Golden) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{scripted.url}/token"'}
    scripted.before = [status(401, **challenge), None, status(401, **challenge)]
    scripted.token = "x"
    async with open_registry(scripted.url) as registry:
        with pytest.raises(ImageError) as refused:
            await registry.manifest(CUDA)
        assert str(refused.value) == golden


@pytest.mark.parametrize("url", ["ftp://a", "http://", "https://user:password@host", "host:5000"])
def test_what_is_no_registry_is_refused(url: str) -> None:
    with pytest.raises(BadFlag, match="docker_registry"):
        Registry(url)


@pytest.mark.parametrize(
    ("flag", "name", "base"),
    [
        ("http://127.0.0.1:5000", "cuda", "http://127.0.0.1:5000"),
        ("http://reg.corp:5000/", "reg.corp:5000/cuda", "http://reg.corp:5000"),
        ("https://reg.corp/v2", "cuda", "https://reg.corp"),
        ("http://reg.corp", "nvcr.io/nvidia/cuda", "https://nvcr.io"),
        ("http://reg.corp", "localhost:5000/cuda", "http://localhost:5000"),
        ("http://reg.corp", "[::1]:5000/cuda", "http://[::1]:5000"),
        ("http://reg.corp", "docker.io/ubuntu", DOCKER_HUB_URL),
        ("https://docker.io", "ubuntu", DOCKER_HUB_URL),
    ],
)
def test_each_name_leads_to_its_registry(flag: str, name: str, base: str) -> None:
    registry = Registry(flag)
    assert registry.base(ImageReference.parse(name)) == base


async def test_a_token_from_an_unsafe_place_is_not_asked_for() -> None:
    registry = Registry("https://reg.corp", config=DockerConfig({"reg.corp": Credentials("me", "secret")}))
    with pytest.raises(ImageError, match="not safe"):
        await registry.authorize({"bearer": {"realm": "http://evil"}}, "https://reg.corp", "reg.corp", CUDA)


@pytest.mark.root
async def test_a_full_disk_is_told_in_words(scripted: ScriptedRegistry, small_disk: Path, golden: Golden) -> None:
    async with open_registry(scripted.url) as registry:
        with pytest.raises(ImageError) as refused:
            await get_blob(registry, small_disk / "blob")
        assert str(refused.value) == golden
