from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.container.host.filters import ANNOTATION, REMEMBERED, Filters
from mesos_gpu.container.host.runtime import Runtime

CRUN, RUNC = Runtime("crun", Path("/usr/bin/crun")), Runtime("runc", Path("/usr/sbin/runc"))
COMPILED = bytes(range(16))


def document(action: str | None) -> dict[str, Any]:
    return {"linux": {} if action is None else {"seccomp": {"defaultAction": action, "syscalls": []}}}


def learnt(tmp_path: Path, compiled: bytes) -> Filters:
    filters, file = Filters(), tmp_path / "seccomp.bpf"
    file.write_bytes(compiled)
    key = filters.shorten(document("SCMP_ACT_ERRNO"), CRUN)
    assert key is not None
    filters.learn(key, file)
    return filters


def test_what_was_compiled_once_is_given_to_the_next_container_beside_its_list(tmp_path: Path) -> None:
    filters, next_one = learnt(tmp_path, COMPILED), document("SCMP_ACT_ERRNO")
    assert filters.shorten(next_one, CRUN) is None
    assert base64.b64decode(next_one["annotations"][ANNOTATION]) == COMPILED
    assert next_one["linux"] == document("SCMP_ACT_ERRNO")["linux"]


def test_another_list_is_compiled_anew(tmp_path: Path) -> None:
    filters, other = learnt(tmp_path, COMPILED), document("SCMP_ACT_KILL")
    assert filters.shorten(other, CRUN) is not None
    assert "annotations" not in other


@pytest.mark.parametrize("compiled", [b"", bytes(7), bytes(8 * 4097)])
def test_what_is_no_filter_is_not_taken(tmp_path: Path, compiled: bytes) -> None:
    filters, next_one = learnt(tmp_path, compiled), document("SCMP_ACT_ERRNO")
    assert filters.shorten(next_one, CRUN) is not None
    assert "annotations" not in next_one


def test_a_filter_that_is_not_there_is_not_taken(tmp_path: Path) -> None:
    filters = Filters()
    key = filters.shorten(document("SCMP_ACT_ERRNO"), CRUN)
    assert key is not None
    filters.learn(key, tmp_path / "missing")
    assert filters.shorten(document("SCMP_ACT_ERRNO"), CRUN) == key


def test_runc_and_containers_without_a_list_get_none(tmp_path: Path) -> None:
    filters = learnt(tmp_path, COMPILED)
    for other, runtime in ((document("SCMP_ACT_ERRNO"), RUNC), (document(None), CRUN)):
        assert filters.shorten(other, runtime) is None
        assert "annotations" not in other


def test_only_so_many_lists_are_kept(tmp_path: Path) -> None:
    filters = learnt(tmp_path, COMPILED)
    for number in range(REMEMBERED):
        key = filters.shorten(document(f"other {number}"), CRUN)
        assert key is not None
        filters.learn(key, tmp_path / "seccomp.bpf")
    assert filters.shorten(document("SCMP_ACT_ERRNO"), CRUN) is not None
    assert filters.shorten(document("other 1"), CRUN) is None
