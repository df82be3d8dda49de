from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag, BadInput, ImageError
from mesos_gpu.images.credentials import Credentials, DockerConfig, parse_challenges
from mesos_gpu.images.manifest import (
    DOCKER_MANIFEST,
    OCI_INDEX,
    Descriptor,
    Index,
    Manifest,
    Platform,
    read_config,
    read_manifest,
)
from mesos_gpu.images.reference import ImageReference
from tests.support.golden import Golden
from tests.support.images.build import BuiltImage, Layer, index_of, sha256, tar_of

AMD64, ARM64 = Platform("amd64"), Platform("arm64", "v8")


def image(architecture: str = "amd64", *, oci: bool = False) -> BuiltImage:
    return BuiltImage((Layer(tar_of()),), {}, oci, architecture)


@pytest.mark.parametrize("oci", [False, True])
def test_manifests_of_docker_and_oci_are_read(oci: bool) -> None:
    built = image(oci=oci)
    manifest = read_manifest(built.manifest, built.media_type)
    assert isinstance(manifest, Manifest)
    assert manifest.config.digest == sha256(built.config)
    assert [layer.digest for layer in manifest.layers] == [sha256(built.layers[0].blob)]


@pytest.mark.parametrize("oci", [False, True])
def test_the_manifest_of_this_machine_is_chosen(oci: bool, golden: Golden) -> None:
    built = {name: image(name, oci=oci) for name in ("arm/v7", "arm64/v8", "amd64")}
    index = read_manifest(index_of(built, oci=oci))
    assert isinstance(index, Index)
    assert index.choose(AMD64).digest == built["amd64"].digest
    assert index.choose(ARM64).digest == built["arm64/v8"].digest
    assert index.choose(Platform("arm64")).digest == built["arm64/v8"].digest
    with pytest.raises(ImageError) as refused:
        index.choose(Platform("ppc64le"))
    assert str(refused.value) == golden


def test_the_very_variant_goes_before_one_without() -> None:
    built = {"amd64/v3": image("amd64"), "amd64": image("x")}
    index = read_manifest(index_of(built))
    assert isinstance(index, Index)
    assert index.choose(AMD64).digest == built["amd64"].digest
    assert index.choose(Platform("amd64", "v3")).digest == built["amd64/v3"].digest


def test_a_lone_manifest_without_a_platform_is_taken() -> None:
    entry = {"digest": image().digest, "size": 1, "mediaType": DOCKER_MANIFEST}
    index = read_manifest(json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(), OCI_INDEX)
    assert isinstance(index, Index)
    assert index.choose(AMD64) == Descriptor(image().digest, 1, DOCKER_MANIFEST)


@pytest.mark.parametrize(
    ("machine", "platform"), [("x86_64", "linux/amd64"), ("aarch64", "linux/arm64"), ("riscv64", "linux/riscv64")]
)
def test_machines_are_named_as_images_name_them(machine: str, platform: str) -> None:
    assert str(Platform.of_machine(machine)) == platform


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b"[]",
        b'{"schemaVersion": 1}',
        b'{"schemaVersion": 2}',
        b'{"schemaVersion": 2, "layers": {}, "config": {}}',
        b'{"schemaVersion": 2, "layers": [], "config": {"digest": "sha256:1", "size": 1}}',
        b'{"schemaVersion": 2, "layers": [], "mediaType": "application/vnd.wasm"}',
        b'{"schemaVersion": 2, "manifests": [7]}',
        b" " * (5 << 20),
    ],
)
def test_what_is_no_manifest_is_refused_in_words(document: bytes, golden: Golden) -> None:
    with pytest.raises(ImageError) as refused:
        read_manifest(document)
    assert str(refused.value) == golden


def test_a_negative_size_is_refused(golden: Golden) -> None:
    config = {"digest": image().digest, "size": -1}
    with pytest.raises(ImageError) as refused:
        read_manifest(json.dumps({"schemaVersion": 2, "layers": [], "config": config}).encode())
    assert str(refused.value) == golden


def test_more_layers_than_overlayfs_takes_are_refused() -> None:
    layers = [{"digest": image().digest, "size": 1}] * 501
    document = {"schemaVersion": 2, "layers": layers, "config": layers[0]}
    with pytest.raises(ImageError, match="501 layers"):
        read_manifest(json.dumps(document).encode())


def test_a_config_says_how_the_image_is_run() -> None:
    run = {
        "Env": ["PATH=/bin", "A=b=c", "EMPTY="],
        "Entrypoint": ["/init", "-x"],
        "Cmd": ["serve"],
        "WorkingDir": "/srv",
        "User": "nobody:nogroup",
        "Volumes": {"/data": {}, "/cache": {}},
        "Labels": {"com.nvidia.volumes.needed": "nvidia_driver"},
    }
    built = BuiltImage((Layer(tar_of()),), run)
    config = read_config(built.config)
    assert config.env == {"PATH": "/bin", "A": "b=c", "EMPTY": ""}
    assert (config.entrypoint, config.cmd) == (("/init", "-x"), ("serve",))
    assert (config.workdir, config.user, config.volumes) == ("/srv", "nobody:nogroup", ("/cache", "/data"))
    assert config.labels == {"com.nvidia.volumes.needed": "nvidia_driver"}
    assert config.diff_ids == (sha256(built.layers[0].tar),)


def test_what_a_config_leaves_out_is_none() -> None:
    config = read_config(b'{"config": {"Entrypoint": null, "Cmd": [], "User": ""}, "rootfs": {"diff_ids": null}}')
    assert (config.entrypoint, config.cmd, config.user, config.workdir) == (None, (), None, None)


@pytest.mark.parametrize(
    "document",
    [
        b'{"config": [1]}',
        b'{"config": {"Env": "A=b"}}',
        b'{"config": {"Cmd": [1]}}',
        b'{"rootfs": {"diff_ids": ["x"]}}',
        b'{"config": {"WorkingDir": "/a\\u0000b"}}',
        b'{"config": {"Volumes": {"/a\\u0000b": {}}}}',
        b'{"config": {"User": "a\\u0000b"}}',
    ],
)
def test_damaged_configs_are_refused(document: bytes, golden: Golden) -> None:
    with pytest.raises(ImageError) as refused:
        read_config(document)
    assert str(refused.value) == golden


leaves: Any = st.none() | st.booleans() | st.integers() | st.text("ab:/.0-", max_size=5)
KEYS = (
    "schemaVersion",
    "mediaType",
    "manifests",
    "layers",
    "config",
    "rootfs",
    "Env",
    "Labels",
    "diff_ids",
    "platform",
)


objects: Any = st.dictionaries(st.sampled_from(KEYS), leaves, max_size=3)


@given(st.dictionaries(st.sampled_from(KEYS), leaves | objects | st.lists(leaves | objects, max_size=2), max_size=4))
def test_any_json_is_read_or_refused(document: dict[str, Any]) -> None:
    for read in (read_manifest, read_config):
        try:
            read(json.dumps(document).encode())
        except ImageError:
            pass


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


def test_challenges_are_read_whatever_their_order() -> None:
    header = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push"'
    wanted = {
        "realm": "https://auth.docker.io/token",
        "service": "registry.docker.io",
        "scope": "repository:a/b:pull,push",
    }
    assert parse_challenges(header) == {"bearer": wanted}
    assert parse_challenges(f'Basic realm="x", {header}') == {"basic": {"realm": "x"}, "bearer": wanted}
    assert parse_challenges(r'basic Realm = "a \"b\""') == {"basic": {"realm": 'a "b"'}}
    assert parse_challenges("") == {}
    assert parse_challenges("Negotiate") == {"negotiate": {}}


def test_credentials_are_found_by_host_however_docker_wrote_it() -> None:
    login = base64.b64encode(b"me:p:w").decode()
    config = DockerConfig.parse(
        json.dumps(
            {
                "auths": {
                    "https://index.docker.io/v1/": {"auth": login},
                    "nvcr.io": {"username": "$oauthtoken", "password": "k"},
                    "127.0.0.1:5000": {"identitytoken": "t"},
                },
                "credsStore": "desktop",
            }
        )
    )
    assert config.at("docker.io") == config.at("registry-1.docker.io") == Credentials("me", "p:w")
    assert config.at("NVCR.io") == Credentials("$oauthtoken", "k")
    assert config.at("127.0.0.1:5000").identity_token == "t"
    assert config.at("quay.io") == Credentials()
    assert config.at("quay.io").basic is None


def test_passwords_are_not_shown() -> None:
    assert "hidden" not in repr(Credentials("me", "hidden", "hidden too"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"auths": []}',
        '{"auths": {"a": 1}}',
        '{"auths": {"a": {"auth": "hidden"}}}',
        '{"auths": {"a": {"auth": 1}}}',
    ],
)
def test_bad_configs_are_refused_without_showing_secrets(text: str) -> None:
    with pytest.raises(BadFlag, match="docker_config") as caught:
        DockerConfig.parse(text)
    assert "hidden" not in str(caught.value)
