"""The functions that dataclasses write, kept in compiled form from one start of a box to the next.

A dataclass writes its `__init__`, `__eq__` and others as text, and has Python compile it each time its module is
imported: for the 540 of master, agent and Marathon that is a third of what reading them takes. Modules are kept
compiled in `__pycache__`, and so are these, beside the module that imports the others, under the rules that hold for
modules: whoever may write there may have his code run anyway, another Python's is not read, and nothing is written
where Python is told to write none, or where a package brought its modules compiled. What is kept goes by the text that
it was compiled from: it cannot be out of date.
"""

from __future__ import annotations

import dataclasses
import marshal
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import MAGIC_NUMBER, cache_from_source, find_spec
from pathlib import Path
from sys import dont_write_bytecode
from typing import Any

_UNCHECKED = b"\x01\x00\x00\x00"
"""The flags of a module that was compiled for good (PEP 552)."""


@contextmanager
def kept(module: str) -> Iterator[None]:
    """Have dataclasses that are defined meanwhile take their functions from what is kept beside a module.

    What was not there is compiled, and kept as well. Raises ImportError when there is no such module.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {module!r}")
    source = spec.origin
    path = Path(cache_from_source(source, optimization="dataclasses"))
    known = _read(path)
    used: dict[bytes, bytes] = {}

    def run(text: str, names: dict[str, Any], local_names: dict[str, Any] | None = None) -> None:
        key = blake2b(text.encode(), digest_size=16).digest()
        # One by one, so that in memory code lies beside the class that it is of.
        data = known.get(key)
        if data is None:
            # As `exec` in the module `dataclasses` would: without what this module has from __future__.
            code = compile(text, "<string>", "exec", dont_inherit=True)
            data = marshal.dumps(code)
        else:
            code = marshal.loads(data)
        used[key] = data
        exec(code, names, local_names)

    # A name of the module comes before the builtin one.
    vars(dataclasses)["exec"] = run
    try:
        yield
    finally:
        del vars(dataclasses)["exec"]
    if used.keys() - known.keys() and not dont_write_bytecode and not _compiled_for_good(source):
        _write(path, used)


def _read(path: Path) -> Mapping[bytes, bytes]:
    with suppress(OSError, ValueError, EOFError, TypeError):
        data = path.read_bytes()
        if data.startswith(MAGIC_NUMBER):
            found = marshal.loads(memoryview(data)[len(MAGIC_NUMBER) :])
            if isinstance(found, dict):
                return found
    return {}


def _write(path: Path, used: Mapping[bytes, bytes]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(exist_ok=True)
        temporary.write_bytes(MAGIC_NUMBER + marshal.dumps(dict(used)))
        temporary.replace(path)
    except OSError:  # as with modules: where it cannot be kept, it is not
        with suppress(OSError):
            temporary.unlink()


def _compiled_for_good(source: str) -> bool:
    try:
        with Path(cache_from_source(source)).open("rb") as file:
            return file.read(8)[4:] == _UNCHECKED
    except OSError:
        return False
