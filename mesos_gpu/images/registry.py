"""Images from a registry over HTTP: distribution's API v2, which OCI took over as its distribution spec.

Sources: distribution docs/spec/api.md and docs/spec/auth/; OCI distribution-spec.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from mesos_gpu.errors import BadFlag, ImageError
from mesos_gpu.images.blobs import CHUNK, Document, Partial, Received, WrongContent
from mesos_gpu.images.credentials import DockerConfig, parse_challenges
from mesos_gpu.images.manifest import MANIFEST_TYPES, MAX_MANIFEST, Descriptor
from mesos_gpu.images.reference import ImageReference, is_docker_hub
from mesos_gpu.images.trust import trusted, why

DOCKER_HUB_URL = "https://registry-1.docker.io"
MAX_TOKEN = 1 << 20


class Patience(Struct, frozen=True):
    """How long a registry may take: seconds to connect and between two bytes, tries in a row that bring nothing."""

    connect_s: float = 10.0
    silence_s: float = 30.0
    tries: int = 4
    pause_s: float = 0.5
    """Before the second try; doubled before each further one."""


class _TryAgain(Exception):
    """This try failed, the next may not."""


class Registry:
    """A `Source`: the registry of --docker_registry, and those that image names say.

    Registries named by an image are spoken to over https, those on this machine's loopback over http, as Docker does.
    """

    def __init__(self, url: str, *, config: DockerConfig | None = None, patience: Patience | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise BadFlag("docker_registry", f"{url!r} is not http(s)://HOST[:PORT]")
        self._host = parts.netloc.lower()
        self._url = DOCKER_HUB_URL if is_docker_hub(self._host) else url.rstrip("/").removesuffix("/v2")
        self._config, self._patience = config or DockerConfig(), patience or Patience()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._tokens: dict[tuple[str, str], str] = {}

    async def manifest(self, reference: ImageReference, digest: str | None = None) -> Document:
        """Return a manifest: of the reference, or of that digest in its repository. Raises ImageError."""
        reference = reference.on(self._host)
        version = digest or reference.version
        tries = 0
        while True:
            try:
                return await self._read_manifest(reference, version)
            except _TryAgain as problem:
                tries += 1
                await self._pause(tries, f"cannot get {reference}: {problem}")

    async def blob(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        """Bring a blob into its file, going on where an earlier try stopped. Raises ImageError; then call it again."""
        reference = reference.on(self._host)
        what = f"cannot get {blob.digest} of {reference}"
        tries, resumed = 0, await asyncio.to_thread(into.open)
        while True:
            before = into.size
            try:
                if into.size < blob.size or blob.size == 0:
                    await self._read_blob(reference, blob, into, received)
                received(into.size)
                into.finish()
                return
            except WrongContent as problem:
                await asyncio.to_thread(into.restart)
                if not resumed:
                    raise ImageError(f"{what}: {problem}") from None
                resumed = 0  # what an earlier run left may be to blame: once more from the start
            except _TryAgain as problem:
                tries = tries + 1 if into.size <= before else 1
                await self._pause(tries, f"{what}: {problem}")

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _read_manifest(self, reference: ImageReference, version: str) -> Document:
        headers = {"Accept": ", ".join(MANIFEST_TYPES)}
        async with self._get(reference, f"manifests/{version}", headers) as response:
            data = await _read(response, MAX_MANIFEST, f"the manifest of {reference}")
            media_type = response.headers.get("Content-Type", "").partition(";")[0].strip() or None
            told = response.headers.get("Docker-Content-Digest")
        wanted = version if ":" in version else told
        algorithm = wanted.partition(":")[0] if wanted else "sha256"
        found = (
            f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}" if algorithm in ("sha256", "sha512") else wanted
        )
        if wanted and found != wanted:
            raise ImageError(f"bad digest: the manifest of {reference} is {found}, it should be {wanted}")
        return Document(data, media_type, found or "")

    async def _read_blob(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        headers = {"Range": f"bytes={into.size}-"} if into.size else {}
        async with self._get(reference, f"blobs/{blob.digest}", headers) as response:
            start = 0
            if response.status == 206:
                words = response.headers.get("Content-Range", "").split()
                start = int(number) if words and (number := words[-1].partition("-")[0]).isdigit() else -1
            if start != into.size:
                await asyncio.to_thread(into.restart)
                if start > 0 or response.status == 206:
                    raise _TryAgain(f"{response.url.host} answered another range than was asked for")
            async for chunk in response.content.iter_chunked(CHUNK):
                received(await asyncio.to_thread(into.write, chunk))

    @asynccontextmanager
    async def _get(
        self, reference: ImageReference, path: str, headers: dict[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """GET below the repository, with a token if one is asked for; only good answers come through."""
        base, host = self.base(reference), reference.registry or self._host
        url, key = f"{base}/v2/{reference.repository}/{path}", (base, reference.repository)
        try:
            for attempt in (1, 2):
                ready = {"Accept-Encoding": "identity", **headers}
                if key in self._tokens:
                    ready["Authorization"] = self._tokens[key]
                async with self._session(base).get(url, headers=ready) as response:
                    if response.status != 401 or attempt == 2:
                        _check(response, reference, path)
                        yield response
                        return
                    challenges = parse_challenges(", ".join(response.headers.getall("WWW-Authenticate", [])))
                self._tokens.pop(key, None)
                self._tokens[key] = await self.authorize(challenges, base, host, reference)
        except aiohttp.ClientConnectorCertificateError as error:
            words = why(error.certificate_error) or error.certificate_error
            raise ImageError(f"{host} cannot prove who it is: {words}") from error
        except aiohttp.InvalidURL as error:
            raise ImageError(f"{host} sends us to a bad address: {error}") from error
        except asyncio.TimeoutError as error:
            raise _TryAgain(f"{host} does not answer within {self._patience.silence_s:g} s") from error
        except aiohttp.ClientConnectorError as error:
            words = why(error.os_error) or error.os_error.strerror or error
            raise _TryAgain(f"the registry {host} cannot be reached: {words}") from error
        except aiohttp.ClientError as error:
            raise _TryAgain(f"the connection to {host} broke: {str(error) or type(error).__name__}") from error

    async def authorize(
        self, challenges: dict[str, dict[str, str]], base: str, host: str, reference: ImageReference
    ) -> str:
        """Return the Authorization header that answers a registry's challenges.

        `base` is the URL of the registry `host`. Raises ImageError: it cannot be had; asking again may help otherwise.
        """
        credentials = self._config.at(host)
        bearer = challenges.get("bearer", {})
        if "realm" not in bearer:
            if "basic" in challenges and credentials.basic:
                return credentials.basic
            raise ImageError(f"{host} wants a user and password for {reference.name}; give them in --docker_config")
        realm = bearer["realm"]
        if not realm.startswith(("https://",) if base.startswith("https://") else ("https://", "http://")):
            raise ImageError(f"{host} sends us for a token to {realm!r}, which is not safe")
        query = {"scope": f"repository:{reference.repository}:pull"}
        if "service" in bearer:
            query["service"] = bearer["service"]
        session = self._session(realm)
        if credentials.identity_token:
            query |= {
                "grant_type": "refresh_token",
                "refresh_token": credentials.identity_token,
                "client_id": "mesos-gpu",
            }
            asking = session.post(realm, data=query)
        else:
            asking = session.get(realm, params=query, headers=_authorization(credentials.basic))
        async with asking as response:
            if response.status in (400, 401, 403):
                raise ImageError(f"{host} refuses our user or password for {reference.name}; see --docker_config")
            if response.status != 200:
                raise _TryAgain(f"{response.url.host} answers {response.status} when asked for a token")
            data = await _read(response, MAX_TOKEN, "the token")
        try:
            document = msgspec.json.decode(data)
            token = document.get("token") or document["access_token"]
        except (msgspec.DecodeError, UnicodeError, AttributeError, KeyError):
            raise ImageError(f"{response.url.host} gave no token for {reference.name}") from None
        return f"Bearer {token}"

    async def _pause(self, tries: int, problem: str) -> None:
        """Wait before the next try, longer each time. Raises ImageError when there were enough."""
        if tries >= self._patience.tries:
            raise ImageError(f"{problem} ({tries} tries)")
        await asyncio.sleep(self._patience.pause_s * 2 ** (tries - 1))

    def base(self, reference: ImageReference) -> str:
        """Return the URL of the registry that an image is read from."""
        host = reference.registry or self._host
        if host == self._host or (is_docker_hub(host) and is_docker_hub(self._host)):
            return self._url
        if is_docker_hub(host):
            return DOCKER_HUB_URL
        return f"http://{host}" if _is_loopback(host) else f"https://{host}"

    def _session(self, url: str) -> aiohttp.ClientSession:
        # The environment's proxies are for the world outside, as in Docker.
        outside = not _is_loopback(urlsplit(url).netloc)
        if outside not in self._sessions:
            timeout = aiohttp.ClientTimeout(sock_connect=self._patience.connect_s, sock_read=self._patience.silence_s)
            self._sessions[outside] = aiohttp.ClientSession(
                timeout=timeout,
                connector=aiohttp.TCPConnector(ssl=trusted()),
                trust_env=outside,
                auto_decompress=False,
                read_bufsize=CHUNK,
            )
        return self._sessions[outside]


def _check(response: aiohttp.ClientResponse, reference: ImageReference, path: str) -> None:
    host, status = reference.registry, response.status
    if status in (200, 206):
        return
    if status == 404 and path.startswith("manifests/"):
        raise ImageError(f"unknown image: {reference} is not in the registry {host}")
    if status == 404:
        raise ImageError(f"{host} has lost a part of {reference}: {path}")
    if status in (401, 403):
        # Docker Hub answers so for images that are not there, too.
        raise ImageError(f"unknown image: {reference} is not in the registry {host}, or needs other --docker_config")
    if status == 416:
        raise WrongContent(f"{path} is shorter than its manifest says")
    if status in (408, 425, 429) or status >= 500:
        raise _TryAgain(f"{host} answers {status} {response.reason}")
    raise ImageError(f"{host} answers {status} {response.reason} to {response.method} {response.url.path}")


def _authorization(basic: str | None) -> dict[str, str]:
    return {"Authorization": basic} if basic else {}


async def _read(response: aiohttp.ClientResponse, limit: int, what: str) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        data += chunk
        if len(data) > limit:
            raise ImageError(f"{what} has more than {limit} bytes")
    return bytes(data)


def _is_loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
