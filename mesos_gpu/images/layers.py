"""A layer's tar becomes a folder that overlayfs takes as a lowerdir.

The tar is not trusted: nothing it says leads outside the folder. Sources: OCI image-spec layer.md (whiteouts); moby
`pkg/archive` for what Docker does with members; Linux Documentation/filesystems/overlayfs.rst for whiteouts on disk.

* `..` in a name refuses the layer; absolute names, and links in the middle of names, are taken as inside a chroot.
* Device nodes are left out: a container's /dev is made by the containerizer. Set-user-ID bits and file capabilities
  stay, since images need them; so the folder must lie where other users of the host cannot come.
* Extended attributes that steer overlayfs are left out.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from mesos_gpu.errors import ImageError
from mesos_gpu.images.compression import DECOMPRESSION_ERRORS, decompress
from mesos_gpu.images.tarstream import TarStream
from mesos_gpu.images.unpacked import OPAQUE_ATTRIBUTE, Extracted, LayerLimits

if TYPE_CHECKING:
    from pathlib import Path  # each worker's start would wait for it

WHITEOUT, AUFS, OPAQUE = ".wh.", ".wh..wh.", ".wh..wh..opq"
ATTRIBUTE = "SCHILY.xattr."
MAX_DEPTH = 256
MAX_LINKS = 40
"""How many symbolic links one name may lead through; Linux' own limit."""

_CHECK_BYTES = 64 << 20


def extract_layer(blob: Path | str, into: Path | str, diff_id: str, limits: LayerLimits) -> Extracted:
    """Unpack a layer into the new folder `into`, and check that it is the one of that digest when uncompressed.

    Raises ImageError, and then a part of it is there: remove it. Needs root for owners and whiteouts.
    """
    try:
        os.mkdir(into, 0o755)
        with open(blob, "rb") as file:
            stream = TarStream(decompress(file), algorithm=diff_id.partition(":")[0], max_bytes=limits.max_bytes)
            layer = _Layer(into, stream, limits)
            for member in stream.members():
                layer.add(member)
            stream.drain()
        if stream.digest != diff_id:
            raise ImageError(f"bad digest: a layer unpacks to {stream.digest}, the image's config says {diff_id}")
        layer.finish()
        return Extracted(layer.bytes, layer.entries)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, *DECOMPRESSION_ERRORS) as error:
        raise ImageError(f"the layer {diff_id} is damaged: {error}") from error
    except MemoryError as error:
        raise ImageError(f"the layer {diff_id} wants too much memory to be unpacked") from error
    except PermissionError as error:
        raise ImageError(f"cannot unpack the layer {diff_id}: {error.strerror}; this needs root") from error
    except OSError as error:
        raise ImageError(f"cannot unpack the layer {diff_id}: {error.strerror or error}") from error


class _Layer:
    """The folder while it fills."""

    def __init__(self, root: Path | str, stream: TarStream, limits: LayerLimits) -> None:
        self._root, self._stream, self._limits = str(root), stream, limits
        self._folders = {""}  # known to be real folders, relative to the root; all below it is made by us alone
        self._whiteouts: list[tuple[list[str], str]] = []
        self._opaque: list[list[str]] = []
        self._attributes: dict[str, tarfile.TarInfo] = {}
        self._unchecked = _CHECK_BYTES
        self.bytes = self.entries = 0

    def add(self, member: tarfile.TarInfo) -> None:
        """Unpack one member."""
        self.entries += 1
        if self.entries > self._limits.max_entries:
            raise ImageError(f"a layer has more than {self._limits.max_entries} files")
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ImageError(f"a layer reaches outside the image: {member.name!r}")
        if not parts:
            if not member.isdir():
                raise ImageError("a layer puts a file in place of the root folder")
            self._attributes[""] = member
            return
        *above, name = parts
        if name == OPAQUE:
            self._opaque.append(above)
        elif any(part.startswith(AUFS) for part in parts):
            pass  # bookkeeping of AUFS, which Docker leaves out too
        elif name.startswith(WHITEOUT):
            if name[len(WHITEOUT) :] in ("", ".", ".."):
                raise ImageError(f"a layer removes what has no name: {member.name!r}")
            self._whiteouts.append((above, name[len(WHITEOUT) :]))
        elif not (member.ischr() or member.isblk()):
            self._write(member, self._below(self._folder(above), name))

    def finish(self) -> None:
        """Hide what the layer removes, then give folders their attributes: writing into them changed their times."""
        # A whiteout hides what lies in lower layers only, so what this layer has under that name stays.
        for above, name in self._whiteouts:
            path = self._absolute(self._below(self._folder(above), name))
            if os.path.isdir(path) and not os.path.islink(path):
                os.setxattr(path, OPAQUE_ATTRIBUTE, b"y")
            elif not os.path.lexists(path):
                os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(0, 0))
        for above in self._opaque:
            os.setxattr(self._absolute(self._folder(above)), OPAQUE_ATTRIBUTE, b"y")
        for relative, member in reversed(self._attributes.items()):
            path = self._absolute(relative)
            if os.path.isdir(path) and not os.path.islink(path):
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    _dress(descriptor, member)
                finally:
                    os.close(descriptor)

    def _write(self, member: tarfile.TarInfo, relative: str) -> None:
        path = self._absolute(relative)
        self._clear(path, keep_folder=member.isdir())
        if member.isdir():
            if not os.path.isdir(path):
                os.mkdir(path, 0o755)
            self._folders.add(relative)
            self._attributes.pop(relative, None)
            self._attributes[relative] = member
        elif member.isreg():
            self._write_file(member, path)
        elif member.issym():
            os.symlink(member.linkname, path)
            os.chown(path, member.uid, member.gid, follow_symlinks=False)
            os.utime(path, ns=_times(member), follow_symlinks=False)
        elif member.islnk():
            self._link(member, path)
        elif member.isfifo():
            os.mkfifo(path, 0o600)
            os.chown(path, member.uid, member.gid)
            os.chmod(path, member.mode & 0o7777)
        else:
            raise ImageError(f"a layer has a member of unknown type {member.type!r}: {member.name!r}")

    def _write_file(self, member: tarfile.TarInfo, path: str) -> None:
        if not 0 <= member.size <= self._limits.max_bytes - self.bytes:
            raise ImageError(f"a layer unpacks to more than {self._limits.max_bytes} bytes")
        self.bytes += member.size
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if member.sparse is None:
                self._copy(descriptor, member.size)
            else:
                for offset, size in cast("list[tuple[int, int]]", member.sparse):
                    if offset < 0 or size < 0 or offset + size > member.size:
                        raise tarfile.ReadError("a hole outside of its file")
                    os.lseek(descriptor, offset, os.SEEK_SET)
                    self._copy(descriptor, size)
                os.ftruncate(descriptor, member.size)
            _dress(descriptor, member)
        finally:
            os.close(descriptor)

    def _copy(self, descriptor: int, size: int) -> None:
        for piece in self._stream.data(size):
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
        self._unchecked += size
        if self._unchecked >= _CHECK_BYTES:
            self._unchecked = 0
            disk = os.fstatvfs(descriptor)
            if disk.f_bavail * disk.f_frsize < self._limits.reserve_bytes:
                raise ImageError(
                    f"no space left on the disk of {self._root}: under {self._limits.reserve_bytes >> 20} MiB are free"
                )

    def _link(self, member: tarfile.TarInfo, path: str) -> None:
        parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise ImageError(f"a layer reaches outside the image: {member.name!r} links to {member.linkname!r}")
        target = self._absolute(self._below(self._folder(parts[:-1]), parts[-1]))
        if not os.path.lexists(target) or stat.S_ISDIR(os.lstat(target).st_mode):
            raise ImageError(f"a layer links {member.name!r} to {member.linkname!r}, which is not a file of it")
        os.link(target, path, follow_symlinks=False)

    def _clear(self, path: str, *, keep_folder: bool) -> None:
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(mode):
            os.unlink(path)
        elif not keep_folder:
            shutil.rmtree(path)
            self._folders.clear()
            self._folders.add("")

    def _folder(self, parts: Sequence[str]) -> str:
        """Return the real folder that a name's folders lead to, relative to the root, making those that are missing.

        Links lead where they would in a chroot to the root: absolute ones start there, and `..` stops there.
        """
        relative = "/".join(parts)
        if relative in self._folders:
            return relative
        here: list[str] = []
        links, ahead = 0, deque(parts)
        while ahead:
            part = ahead.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                del here[-1:]
                continue
            below = self._below("/".join(here), part)
            if below not in self._folders:
                path = self._absolute(below)
                try:
                    mode = os.lstat(path).st_mode
                except FileNotFoundError:
                    os.mkdir(path, 0o755)
                    mode = stat.S_IFDIR
                if stat.S_ISLNK(mode):
                    links += 1
                    if links > MAX_LINKS:
                        raise ImageError(f"a layer leads through more than {MAX_LINKS} links: {relative!r}")
                    target = os.readlink(path)
                    if target.startswith("/"):
                        here.clear()
                    ahead.extendleft(reversed(target.split("/")))
                    continue
                if not stat.S_ISDIR(mode):
                    raise ImageError(f"a layer puts files below {below!r}, which is not a folder")
                self._folders.add(below)
            here.append(part)
            if len(here) > MAX_DEPTH:
                raise ImageError(f"a layer has folders more than {MAX_DEPTH} deep")
        return "/".join(here)

    def _below(self, folder: str, name: str) -> str:
        return f"{folder}/{name}" if folder else name

    def _absolute(self, relative: str) -> str:
        return f"{self._root}/{relative}" if relative else self._root


def _dress(descriptor: int, member: tarfile.TarInfo) -> None:
    # Owner first: changing it takes away the set-user-ID bit and capabilities.
    os.fchown(descriptor, member.uid, member.gid)
    os.fchmod(descriptor, member.mode & 0o7777)
    for key, value in member.pax_headers.items():
        name = key.removeprefix(ATTRIBUTE)
        if key.startswith(ATTRIBUTE) and (name == "security.capability" or _is_harmless(name)):
            try:
                os.setxattr(descriptor, name, value.encode("utf-8", "surrogateescape"))
            except OSError as error:
                if error.errno != errno.ENOTSUP:  # the store's filesystem has none: Docker continues, too
                    raise
    os.utime(descriptor, ns=_times(member))


def _is_harmless(attribute: str) -> bool:
    return attribute.startswith("user.") and not attribute.startswith("user.overlay.")


def _times(member: tarfile.TarInfo) -> tuple[int, int]:
    moment = int(member.mtime * 1_000_000_000)
    return moment, moment
