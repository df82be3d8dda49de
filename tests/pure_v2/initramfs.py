"""The first files that a kernel sees: which of its modules are needed in which order, and the archive of all. Pure.

Sources: kernel documentation, driver-api/early-userspace/buffer-format (newc archives); modinfo of kernel modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

EXECUTABLE, PLAIN, FOLDER, NODE = 0o100755, 0o100644, 0o040755, 0o020600


def name_of(path: str) -> str:
    """Return a module's name as others call it: files may have `-` where names have `_`."""
    return path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def depends_on(content: bytes) -> list[str]:
    """Return the names of the modules that one needs, as its section .modinfo has them."""
    start = content.find(b"\0depends=")
    if start < 0:
        return []
    listed = content[start + 1 :].partition(b"\0")[0].partition(b"=")[2].decode()
    return [name.replace("-", "_") for name in listed.split(",") if name]


def in_order(wanted: Iterable[str], paths: Mapping[str, str], read: Callable[[str], bytes]) -> list[str]:
    """Return the paths of wanted modules after those that they need; what is no module is built in, and left out.

    `paths` are all there are, by name.
    """
    found: dict[str, None] = {}

    def add(name: str) -> None:
        path = paths.get(name)
        if path is None or path in found:
            return
        for needed in depends_on(read(path)):
            add(needed)
        found[path] = None

    for name in wanted:
        add(name.replace("-", "_"))
    return list(found)


def archive(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return an archive of files, each with its mode; folders come before what lies in them, as given."""
    return b"".join(_entries(files))


def _entries(files: Mapping[str, tuple[int, bytes]]) -> Iterator[bytes]:
    for number, (name, (mode, content)) in enumerate(files.items()):
        yield _entry(number + 1, name, mode, content)
    yield _entry(0, "TRAILER!!!", 0, b"")


def _entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    device = (5, 1) if mode == NODE else (0, 0)  # /dev/console is the only one that is made so
    called = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(called), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + called
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
