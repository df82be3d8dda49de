from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput
from mesos_gpu.images.reference import ImageReference
from tests.support.golden import Golden

SHA = "sha256:" + "0123456789abcdef" * 4

NAMES = {
    "nvidia/cuda": (None, "nvidia/cuda", "latest", None),
    "ubuntu": (None, "ubuntu", "latest", None),
    "ubuntu:22.04": (None, "ubuntu", "22.04", None),
    "docker.io/ubuntu": ("docker.io", "library/ubuntu", "latest", None),
    "index.docker.io/ubuntu:18.04": ("docker.io", "library/ubuntu", "18.04", None),
    "docker.io/nvidia/cuda:12.0.0-base": ("docker.io", "nvidia/cuda", "12.0.0-base", None),
    "nvcr.io/nvidia/pytorch:23.10-py3": ("nvcr.io", "nvidia/pytorch", "23.10-py3", None),
    "localhost/app": ("localhost", "app", "latest", None),
    "localhost:5000/a/b/c:x": ("localhost:5000", "a/b/c", "x", None),
    "127.0.0.1:5000/cuda": ("127.0.0.1:5000", "cuda", "latest", None),
    "[::1]:5000/cuda": ("[::1]:5000", "cuda", "latest", None),
    "REG/app": ("REG", "app", "latest", None),
    "host:5000": (None, "host", "5000", None),
    f"cuda@{SHA}": (None, "cuda", None, SHA),
    f"cuda:12@{SHA}": (None, "cuda", "12", SHA),
    "a__b/c-d.e": (None, "a__b/c-d.e", "latest", None),
}


@pytest.mark.parametrize("text", NAMES)
def test_names_are_read_as_docker_reads_them(text: str) -> None:
    reference = ImageReference.parse(text)
    assert (reference.registry, reference.repository, reference.tag, reference.digest) == NAMES[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Nvidia",
        "nvidia/CUDA",
        "a//b",
        "/a",
        "a/",
        "../etc/passwd",
        "a/../b",
        "a..b",
        "-a",
        "a:",
        "a:-x",
        "a:" + "x" * 129,
        "a:b c",
        "a@sha256:123",
        "a@md5:" + "0" * 32,
        "a@",
        "http://host/a",
        "host.io:port/a",
        "user@host.io/a",
        "0123456789abcdef" * 4,
        "a" * 256,
        "a\n",
        "ä",
    ],
)
def test_bad_names_are_refused_in_words(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        ImageReference.parse(text)
    assert str(refused.value) == golden


def test_only_docker_hub_keeps_plain_names_under_library() -> None:
    plain = ImageReference.parse("ubuntu")
    assert str(plain.on("registry-1.docker.io")) == "docker.io/library/ubuntu:latest"
    assert str(plain.on("127.0.0.1:5000")) == "127.0.0.1:5000/ubuntu:latest"
    assert str(ImageReference.parse("quay.io/ubuntu").on("docker.io")) == "quay.io/ubuntu:latest"


word = st.from_regex(r"[a-z0-9]{1,8}([._-][a-z0-9]{1,4})?", fullmatch=True)


@given(
    st.none() | st.sampled_from(["docker.io", "nvcr.io", "localhost:5000", "10.0.0.1:80"]),
    st.lists(word, min_size=2, max_size=4).filter(lambda parts: "." not in parts[0]),
    st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True),
    st.booleans(),
)
def test_what_is_written_is_read_again(registry: str | None, parts: list[str], tag: str | None, digest: bool) -> None:
    reference = ImageReference(
        registry, "/".join(parts), tag or (None if digest else "latest"), SHA if digest else None
    )
    assert ImageReference.parse(str(reference)) == reference


@given(st.text("ab1A:/@.-_[] \0ä"))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        reference = ImageReference.parse(text)
    except BadInput:
        return
    assert ".." not in str(reference).split("/")
