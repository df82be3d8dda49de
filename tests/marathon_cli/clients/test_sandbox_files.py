"""Reading on in a file of a sandbox while the agent's logger begins new ones, against the agent's own /files."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.clients.mesos import RemoteFile
from mesos_gpu.process.files import as_text


class Folder:
    """A folder of files as an agent answers for it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def ask(self, _method: str, _path: str, query: dict[str, str]) -> Any:
        content = self.files.get(query["path"])
        if content is None:
            return SimpleNamespace(status_code=404, ok=False)
        offset, length = int(query["offset"]), int(query["length"])
        if offset < 0:
            document: dict[str, Any] = {"offset": len(content), "data": ""}
        else:
            document = {"offset": offset, "data": as_text(content[offset : offset + length])}
        return SimpleNamespace(status_code=200, ok=True, content=json.dumps(document).encode())

    def rotate(self, keep: int) -> None:
        for number in range(keep, 0, -1):
            older = self.files.pop("x/stdout" if number == 1 else f"x/stdout.{number - 1}", None)
            if older is not None:
                self.files[f"x/stdout.{number}"] = older
        self.files["x/stdout"] = b""

    def say(self, data: bytes) -> None:
        self.files["x/stdout"] = self.files.get("x/stdout", b"") + data


def following(folder: Folder) -> RemoteFile:
    return RemoteFile(folder, "x/stdout")  # type: ignore[arg-type]


def rest(file: RemoteFile) -> bytes:
    got = b""
    while data := file.next():
        got += data
    return got


def test_a_new_file_that_is_longer_than_the_old_one_was_is_noticed() -> None:
    folder = Folder()
    file = following(folder)
    folder.say(b"first\n")
    assert rest(file) == b"first\n"
    folder.say(b"the rest of the first\n")
    folder.rotate(2)
    folder.say(b"second, much longer than the first has been\n")
    assert rest(file) == b"the rest of the first\nsecond, much longer than the first has been\n"
    folder.rotate(2)
    assert rest(file) == b""
    folder.say(b"third\n")
    assert rest(file) == b"third\n"


def test_files_that_were_not_kept_are_left_out() -> None:
    folder = Folder()
    file = following(folder)
    folder.say(b"first\n")
    assert rest(file) == b"first\n"
    folder.say(b"never seen\n")
    folder.files["x/stdout"] = b"second\n"
    assert rest(file) == b"second\n"


def test_a_file_that_is_away_for_a_moment_is_read_on() -> None:
    folder = Folder()
    file = following(folder)
    assert rest(file) == b""
    folder.say(b"first\n")
    assert rest(file) == b"first\n"
    content = folder.files.pop("x/stdout")
    assert rest(file) == b""
    folder.files["x/stdout"] = content + b"second\n"
    assert rest(file) == b"second\n"


def test_the_last_lines_are_what_follows_is_known_by() -> None:
    folder = Folder()
    folder.say(b"1\n2\n3\n")
    file = following(folder)
    file.skip_to_last(1)
    folder.rotate(1)
    folder.say(b"4 and so on\n")
    assert rest(file) == b"3\n4 and so on\n"


@given(
    st.lists(
        st.one_of(
            st.integers(0, 10**6).map(lambda number: f"line {number} ü\n".encode()),
            st.binary(min_size=1, max_size=20).map(lambda data: data + b"\n"),
            st.just(b""),
        ),
        max_size=30,
    )
)
def test_nothing_is_read_twice_or_left_out_whatever_is_said(pieces: list[bytes]) -> None:
    """An empty piece begins a new file. What is not UTF-8 is counted, as the agent gives question marks for it."""
    folder = Folder()
    folder.say(b"first\n")
    file = following(folder)
    got = rest(file)
    for number, piece in enumerate(pieces):
        if piece:
            folder.say(b"%06d " % number + piece)
        else:
            folder.rotate(len(pieces))
        if number % 3 == 0:
            got += rest(file)
    folder.say(b".")
    got += rest(file)
    said = b"first\n" + b"".join(b"%06d " % number + piece for number, piece in enumerate(pieces) if piece) + b"."
    assert len(got) == len(said)
    assert all(a == b or a == ord("?") for a, b in zip(got, said, strict=True))
