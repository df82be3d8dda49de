from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import ImageError
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
