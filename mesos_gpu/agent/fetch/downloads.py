"""Downloads one URI to one file, over HTTP or FTP. An incomplete file never has its final name."""

from __future__ import annotations

import asyncio
import ftplib  # URIs of tasks may be ftp, as Mesos' fetcher takes them  # nosec B402
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import aiohttp

from mesos_gpu.agent.fetch.archives import CHUNK, check_room
from mesos_gpu.base.files import replacing
from mesos_gpu.errors import ContainerError
from mesos_gpu.images.trust import trusted, why

FTPS_PORT = 990


class _Target:
    """The file that a download is written to; `most` is the size that was announced, in bytes."""

    def __init__(self, file: BinaryIO, folder: Path, most: int | None) -> None:
        self._file, self._folder, self._most = file, folder, most
        self._written = 0

    def write(self, data: bytes) -> None:
        """Append data. Raises ContainerError if the disk is full, or more than announced has come; OSError."""
        self._written += len(data)
        check_room(self._folder, len(data))
        if self._most is not None and self._written > self._most:
            raise ContainerError(f"more came than the {self._most} bytes that were announced")
        self._file.write(data)


async def download(uri: str, path: Path, *, stall_s: float, mode: int, most: int | None = None) -> None:
    """Download a remote URI to `path`; no data for `stall_s` seconds is a failure, and more than `most` bytes too.

    Raises ContainerError in words.
    """
    try:
        with replacing(path, mode=mode, durable=False) as file:
            target = _Target(file, path.parent, most)
            if urlsplit(uri).scheme.lower().startswith("ftp"):
                await _over_ftp(uri, target, stall_s)
            else:
                await _over_http(uri, target, stall_s)
    except asyncio.TimeoutError:
        raise ContainerError(f"no data came for {stall_s:g} s") from None
    except (aiohttp.ClientError, ValueError, ftplib.Error, EOFError, OSError) as error:
        raise ContainerError(_words(error, uri)) from error


async def size_of(uri: str, *, stall_s: float) -> int | None:
    """Return how long a remote file is, None when its server does not tell."""
    if urlsplit(uri).scheme.lower().startswith("ftp"):
        return None
    try:
        async with (
            _session(stall_s) as session,
            session.head(uri, allow_redirects=True, headers={"Accept-Encoding": "identity"}) as response,
        ):
            return response.content_length if response.status == 200 else None
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError):
        return None


def _session(stall_s: float) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=stall_s, sock_read=stall_s)
    # As curl does in the agent's place: a proxy that its environment names is used.
    connector = aiohttp.TCPConnector(ssl=trusted())
    return aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=True, auto_decompress=False)


def _words(error: Exception, uri: str) -> str:
    found = why(error)
    if found is not None:
        return f"no TLS with {urlsplit(uri).hostname}: {found}"
    return str(error) or type(error).__name__


async def _over_http(uri: str, target: _Target, stall_s: float) -> None:
    async with (
        _session(stall_s) as session,
        # A file is wanted as it lies there: what is compressed on the way only would keep its compression.
        session.get(uri, headers={"Accept-Encoding": "identity"}) as response,
    ):
        if response.status != 200:
            raise ContainerError(f"Error downloading resource, received HTTP return code {response.status}")
        async for data in response.content.iter_chunked(CHUNK):
            await asyncio.to_thread(target.write, data)


class _Ftps(ftplib.FTP_TLS):
    """FTP that begins with TLS, as `ftps://` means to curl; ftplib alone knows FTP that turns to it, unverified."""

    def __init__(self, stall_s: float) -> None:
        super().__init__(timeout=stall_s, context=trusted())

    def connect(self, host: str = "", port: int = 0, timeout: float = -999, source_address: Any = None) -> str:
        """Connect, and return the server's welcome. Raises OSError, ssl.SSLError among them."""
        self.host, self.port = host, port
        plain = socket.create_connection((host, port), self.timeout)
        try:
            self.sock = self.context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
        self.af = self.sock.family
        self.file = self.sock.makefile("r", encoding=self.encoding)
        self.welcome: str = self.getresp()
        return self.welcome


async def _over_ftp(uri: str, target: _Target, stall_s: float) -> None:
    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(_ftp, uri, target, stall_s, stop.is_set))
    try:
        await asyncio.shield(work)
    except BaseException:
        stop.set()
        await asyncio.wait([work])
        raise


def _ftp(uri: str, target: _Target, stall_s: float, stopped: Callable[[], bool]) -> None:
    parts = urlsplit(uri)
    secure = parts.scheme.lower() == "ftps"
    with _Ftps(stall_s) if secure else ftplib.FTP(timeout=stall_s) as ftp:  # the same  # nosec B321

        def write(data: bytes) -> None:
            if stopped():
                raise ContainerError("stopped while downloading")
            target.write(data)

        ftp.connect(parts.hostname or "", parts.port or (FTPS_PORT if secure else ftplib.FTP_PORT))
        ftp.login(unquote(parts.username or ""), unquote(parts.password or ""))
        if isinstance(ftp, ftplib.FTP_TLS):
            ftp.prot_p()
        ftp.retrbinary(f"RETR {unquote(parts.path.lstrip('/'))}", write, CHUNK)
