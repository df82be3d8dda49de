"""The command line of nvidia-docker, and whom it asks."""

from __future__ import annotations

import shlex

import pytest

from mesos_gpu.doors.nvidia_docker.arguments import cuda_problem, gpu_names, read_call
from mesos_gpu.doors.nvidia_docker.hosts import Remote, remote_host
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden


@pytest.mark.parametrize(
    ("line", "command", "image"),
    [
        ("run img cmd -x", "run", "img"),
        ("--tls -H tcp://h run --rm -it -e A=b --name n img", "run", "img"),
        ("--host=h container run -d img run", "run", "img"),
        ("create -p 80:80 img", "create", "img"),
        ("create -d run img", "create", "img"),
        ("run -p8080:80 img", "run", "img"),
        ("run -itv /a:/b img", "run", "img"),
        ("run -itv/a:/b img", "run", "img"),
        ("run -e=A=b img", "run", "img"),
        ("run --init img", "run", "img"),
        ("run --no-healthcheck --read-only img", "run", "img"),
        ("run -- img", "run", "img"),
        ("run - img", "run", "-"),
        ("run --rm", "run", None),
        ("ps -a", "ps", None),
        ("--version", "", None),
        ("version", "version", None),
    ],
)
def test_the_image_is_found_among_options_and_their_values(line: str, command: str, image: str | None) -> None:
    call = read_call(shlex.split(line), "28.2.2")
    assert (call.command, None if call.image is None else call.words[call.image]) == (command, image)
    if image is not None:
        with_more = call.with_arguments(["--device=x"])
        assert with_more[with_more.index("--device=x") + 1] == image
    else:
        assert call.with_arguments(["--device=x"]) == shlex.split(line)


def test_flags_are_those_of_the_clients_version(golden: Golden) -> None:
    assert read_call(["run", "--init", "a", "img"], "1.12.6").image == 3
    assert read_call(["run", "--no-healthcheck", "a", "img"], "1.11.0").image == 3
    assert read_call(["run", "--no-healthcheck", "img"], "1.12.0").image == 2
    with pytest.raises(BadInput) as refused:
        read_call(["run"], "latest")
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        read_call(["container"], "17.03.1-ce")
    assert str(refused.value) == golden


def test_gpus_are_named_with_blanks_or_commas() -> None:
    assert gpu_names(" 0, 1  GPU-a,0") == ["0", "1", "GPU-a"]
    assert gpu_names("") == []


def test_an_image_for_a_newer_cuda_is_refused(golden: Golden) -> None:
    assert cuda_problem("8.0", {"cuda_version": "9.1"}) is None
    assert cuda_problem("", {"cuda_version": None}) is None
    assert cuda_problem("10.0", {"cuda_version": "9.1"}) == golden
    assert cuda_problem("8.0", {}) == golden


@pytest.mark.parametrize(
    ("nv", "docker", "found"),
    [
        ("", "", None),
        ("", "unix:///s", None),
        ("unix:///s", "tcp://h:2375", None),
        ("", "tcp://h:2375", Remote("h", 3476)),
        ("http://h:80", "", Remote("h", 80)),
        ("h:", "", Remote("h", 3476)),
        (":3000", "", Remote("localhost", 3000)),
        ("tcp://[::1]:99/", "", Remote("[::1]", 99)),
        ("ssh://me@h:2222:99", "", Remote("h", 99, "me", 2222)),
        ("ssh://h:", "", Remote("h", 3476, "user", 22)),
        ("ssh://h:99", "", Remote("h", 99, "user", 22)),
    ],
)
def test_whom_to_ask(nv: str, docker: str, found: Remote | None) -> None:
    assert remote_host(nv, docker, "user") == found


@pytest.mark.parametrize("text", ["h", "ftp://h:1"])
def test_what_is_no_host(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        remote_host(text, "", "user")
    assert str(refused.value) == golden
