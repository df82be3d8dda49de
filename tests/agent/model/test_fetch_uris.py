"""What a command's URIs ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.model.fetch_uris import archive_of, local_path, read_uris
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden


def read(value: str, **more: Any) -> Any:
    (item,) = read_uris({"uris": [{"value": value, **more}]})
    return item


@pytest.mark.parametrize(
    ("uri", "name", "archive"),
    [
        ("http://example.com/a/b.tar.gz", "b.tar.gz", "tar"),
        ("https://example.com:8443/b.txz", "b.txz", "tar"),
        ("http://example.com/get?file=b.zip", "get?file=b.zip", "zip"),
        ("ftp://user:word@example.com/pub/x.gz", "x.gz", "gzip"),
        ("file:///srv/model.bin", "model.bin", None),
        ("/srv/app.tbz2", "app.tbz2", "tar"),
        ("tools/run.sh", "run.sh", None),
    ],
)
def test_the_name_is_the_last_part_and_says_what_is_unpacked(uri: str, name: str, archive: str | None) -> None:
    item = read(uri)
    assert (item.name, item.archive) == (name, archive)
    assert read(uri, executable=True).archive is None
    assert read(uri, extract=False).archive is None


def test_an_output_file_is_a_name_in_the_sandbox() -> None:
    item = read("http://example.com/x?y=1", output_file="lib/./model.zip")
    assert (item.name, item.archive) == ("lib/model.zip", "zip")
    for output in ("/etc/passwd", "../x", "a/../../x", ".", "a\\b", "it's", "stdout"):
        with pytest.raises(BadInput):
            read("http://example.com/x", output_file=output)


@pytest.mark.parametrize(
    "uri",
    [
        "hdfs://namenode/x",
        "s3://bucket/x",
        "http://example.com",
        "http://example.com/",
        "http:///x",
        "http://example.com:99999999/x",
        "",
        "http://example.com/it's",
        "/a/..",
        "/srv/stderr",
    ],
)
def test_what_cannot_be_fetched_is_refused_in_words(uri: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read(uri)
    assert str(refused.value) == golden


def test_paths_of_the_machine(golden: Golden) -> None:
    assert local_path("file:///a%20b", None) == "/a b"
    assert local_path("file://localhost/a", None) == "/a"
    assert local_path("/a", "/home") == "/a"
    assert local_path("x/y", "/home") == "/home/x/y"
    with pytest.raises(BadInput, match="frameworks_home"):
        local_path("x/y", None)
    with pytest.raises(BadInput) as refused:
        local_path("file://elsewhere", None)
    assert str(refused.value) == golden


@given(st.text(max_size=30), st.text(max_size=30))
def test_whatever_is_asked_a_name_stays_in_the_sandbox(path: str, output: str) -> None:
    try:
        item = read(f"http://h/{path}", output_file=output)
    except BadInput:
        return
    parts = item.name.split("/")
    assert not item.name.startswith("/")
    assert ".." not in parts
    assert "" not in parts
    assert item.name not in ("stdout", "stderr")
    assert archive_of(item.name) in (None, "tar", "zip", "gzip")
