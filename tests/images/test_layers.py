from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.errors import ImageError
from mesos_gpu.images.layers import extract_layer
from mesos_gpu.images.unpacked import OPAQUE_ATTRIBUTE, Extracted, LayerLimits, is_opaque
from mesos_gpu.images.zstd import zstd
from tests.support.golden import Golden
from tests.support.images.build import Layer, file, folder, hard_link, link, member, sha256, tar_of

pytestmark = pytest.mark.root  # owners, whiteouts and trusted.* attributes

LIMITS = LayerLimits(max_bytes=8 << 20, max_entries=100, reserve_bytes=0)


def unpack(folder: Path, tar: bytes, blob: bytes | None = None, limits: LayerLimits = LIMITS) -> Path:
    """Unpack into folder/deep/layer, so that there is something to escape to; return the layer."""
    into = folder / "deep" / "layer"
    into.parent.mkdir(exist_ok=True)
    (folder / "blob").write_bytes(tar if blob is None else blob)
    extract_layer(folder / "blob", into, sha256(tar), limits)
    return into


def unpack_members(folder: Path, *members: tuple[Any, bytes]) -> Path:
    return unpack(folder, tar_of(*members))


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def is_whiteout(path: Path) -> bool:
    there = path.lstat()
    return stat.S_ISCHR(there.st_mode) and there.st_rdev == 0


def test_files_folders_and_links_arrive_with_owner_mode_and_time(tmp_path: Path) -> None:
    layer = unpack_members(
        tmp_path,
        folder("./", mode=0o751, mtime=5),
        folder("./home", mode=0o1777, mtime=1000, uid=7, gid=8),
        file("./home/a", b"one", mode=0o640, mtime=2000, uid=1, gid=2),
        link("./home/to-a", "a"),
        hard_link("./home/same", "./home/a"),
        file("implicit/parent/b", b"two"),
        member("pipe", tarfile.FIFOTYPE, mode=0o622),
    )
    a, home = (layer / "home/a").stat(), (layer / "home").stat()
    assert (layer / "home/a").read_bytes() == b"one"
    assert (a.st_uid, a.st_gid, stat.S_IMODE(a.st_mode), a.st_mtime) == (1, 2, 0o640, 2000)
    assert (home.st_uid, home.st_gid, stat.S_IMODE(home.st_mode), home.st_mtime) == (7, 8, 0o1777, 1000)
    assert (stat.S_IMODE(layer.stat().st_mode), layer.stat().st_mtime) == (0o751, 5)
    assert (layer / "home/same").stat().st_ino == a.st_ino
    assert (layer / "home/to-a").readlink() == Path("a")
    assert (layer / "implicit/parent/b").read_bytes() == b"two"
    assert stat.S_IMODE((layer / "implicit").stat().st_mode) == 0o755
    assert stat.S_ISFIFO((layer / "pipe").stat().st_mode)


def test_set_user_id_bits_and_capabilities_stay_and_steering_attributes_go(tmp_path: Path) -> None:
    capability = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0).decode("latin-1")  # cap_net_raw
    headers = {
        "SCHILY.xattr.security.capability": capability,
        "SCHILY.xattr.user.note": "yes",
        "SCHILY.xattr.trusted.overlay.redirect": "/etc",
        "SCHILY.xattr.user.overlay.redirect": "/etc",
        "SCHILY.xattr.security.selinux": "x",
    }
    layer = unpack_members(
        tmp_path,
        file("bin/su", b"#!", mode=0o4755, uid=0),
        file("bin/wall", b"#!", mode=0o2755, gid=5),
        file("bin/ping", b"#!", mode=0o755, pax_headers=headers),
        folder("dir", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"}),
    )
    assert stat.S_IMODE((layer / "bin/su").stat().st_mode) == 0o4755
    assert stat.S_IMODE((layer / "bin/wall").stat().st_mode) == 0o2755
    assert set(os.listxattr(layer / "bin/ping")) == {"security.capability", "user.note"}
    assert os.listxattr(layer / "dir") == []


def test_whiteouts_become_those_of_overlayfs(tmp_path: Path) -> None:
    layer = unpack_members(
        tmp_path,
        file("bin/.wh.vi"),
        file("gone/deep/.wh.x"),
        folder("opaque"),
        file("opaque/.wh..wh..opq"),
        file("opaque/new"),
        file(".wh..wh.plnk"),
        file(".wh..wh.orph/x"),
    )
    assert is_whiteout(layer / "bin/vi")
    assert is_whiteout(layer / "gone/deep/x")
    assert os.getxattr(layer / "opaque", OPAQUE_ATTRIBUTE) == b"y"
    assert everything(layer) == {"bin", "bin/vi", "gone", "gone/deep", "gone/deep/x", "opaque", "opaque/new"}
    assert not is_opaque(layer)


@pytest.mark.parametrize("whiteout_first", [True, False])
def test_a_whiteout_hides_lower_layers_and_not_its_own(tmp_path: Path, whiteout_first: bool) -> None:
    hide, show = [file(".wh.dir"), file(".wh.file")], [file("dir/x"), file("file", b"new")]
    layer = unpack_members(tmp_path, *(hide + show if whiteout_first else show + hide))
    assert (layer / "dir/x").exists()
    assert is_opaque(layer / "dir")
    assert (layer / "file").read_bytes() == b"new"


def test_an_opaque_root_is_seen(tmp_path: Path) -> None:
    assert is_opaque(unpack_members(tmp_path, file(".wh..wh..opq"), file("only")))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_device_nodes_are_left_out(tmp_path: Path, kind: bytes) -> None:
    layer = unpack_members(
        tmp_path, member("dev/mem", kind, devmajor=1, devminor=1), member("white", kind), file("dev/a")
    )
    assert everything(layer) == {"dev", "dev/a"}


def test_the_later_of_two_members_wins(tmp_path: Path) -> None:
    layer = unpack_members(
        tmp_path,
        file("a", b"old"),
        file("a", b"new"),
        file("b/x"),
        file("b", b"file"),
        link("c", "/nowhere"),
        folder("c"),
        file("c/x"),
        folder("d", mode=0o700),
        file("d/x"),
        folder("d", mode=0o711),
    )
    assert (layer / "a").read_bytes() == b"new"
    assert (layer / "b").read_bytes() == b"file"
    assert (layer / "c/x").exists()
    assert not (layer / "c").is_symlink()
    assert (layer / "d/x").exists()
    assert stat.S_IMODE((layer / "d").stat().st_mode) == 0o711


def test_writing_over_a_hard_link_leaves_its_other_name_alone(tmp_path: Path) -> None:
    layer = unpack_members(tmp_path, file("a", b"1"), hard_link("b", "a"), file("b", b"2"))
    assert ((layer / "a").read_bytes(), (layer / "b").read_bytes()) == (b"1", b"2")


@pytest.mark.parametrize(
    ("first", "then", "lands"),
    [
        (link("x", "/"), file("x/etc/passwd", b"evil"), "etc/passwd"),
        (link("x", "../../../../../.."), file("x/escaped", b"evil"), "escaped"),
        (link("x", "/etc"), file("x/deep/er", b"evil"), "etc/deep/er"),
        (link("x/y", "../../.."), file("x/y/escaped", b"evil"), "escaped"),
        (file("/absolute/name", b"evil"), file("//etc//x", b""), "absolute/name"),
        (link("usr/lib", "lib64/../lib32/."), file("usr/lib/a", b"evil"), "usr/lib32/a"),
    ],
)
def test_links_on_the_way_lead_where_a_chroot_leads(tmp_path: Path, first: Any, then: Any, lands: str) -> None:
    layer = unpack_members(tmp_path, first, then)
    assert (layer / lands).read_bytes() == b"evil"
    assert everything(tmp_path) - {"blob", "deep", "deep/layer"} == {f"deep/layer/{x}" for x in everything(layer)}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([file("../escaped")], "reaches outside"),
        ([file("a/../../escaped")], "reaches outside"),
        ([folder("..")], "reaches outside"),
        ([file("/../escaped")], "reaches outside"),
        ([link(".", "/etc")], "root folder"),
        ([file("./")], "root folder"),
        ([hard_link("a", "../../blob")], "reaches outside"),
        ([hard_link("a", "/etc/passwd")], "not a file of it"),
        ([link("x", "/etc"), hard_link("a", "x/passwd")], "not a file of it"),
        ([link("x", "../.."), hard_link("a", "x/blob")], "not a file of it"),
        ([folder("d"), hard_link("a", "d")], "not a file of it"),
        ([hard_link("a", "")], "reaches outside"),
        ([file("a/.wh...")], "no name"),
        ([file("a/.wh..")], "no name"),
        ([file(".wh.")], "no name"),
        ([file("../.wh.x")], "reaches outside"),
        ([file("f"), file("f/below")], "not a folder"),
        ([link("a", "b"), link("b", "a"), file("a/x")], "40 links"),
        ([file("/".join("d" * 300))], "256 deep"),
        ([file("x" * 300)], "name too long"),
        ([member("strange", b"Z")], "unknown type"),
        ([file("a", uid=-5)], "damaged"),
        ([file("a", pax_headers={"mtime": "nan"})], "damaged"),
        ([file("a\0b", pax_headers={"path": "a\0b"})], "damaged"),
        ([file(str(n)) for n in range(101)], "more than 100 files"),
        ([file("big", b"\0" * (9 << 20))], "more than"),
    ],
)
def test_hostile_members_refuse_the_layer(tmp_path: Path, members: list[Any], words: str) -> None:
    before = Path("/etc/passwd").stat()
    with pytest.raises(ImageError, match=f"(?i){words}"):
        unpack_members(tmp_path, *members)
    after = Path("/etc/passwd").stat()
    assert (after.st_nlink, after.st_size, after.st_mtime) == (before.st_nlink, before.st_size, before.st_mtime)
    assert {path.name for path in tmp_path.iterdir()} == {"blob", "deep"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["layer"]


def test_a_link_that_is_hard_linked_is_not_followed(tmp_path: Path) -> None:
    layer = unpack_members(tmp_path, link("s", "/etc/passwd"), hard_link("h", "s"))
    assert (layer / "h").readlink() == Path("/etc/passwd")


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(lambda tar: tar, id="plain"),
        pytest.param(lambda tar: gzip.compress(tar), id="gzip"),
        pytest.param(lambda tar: gzip.compress(tar[:700]) + gzip.compress(tar[700:]) + b"\0" * 99, id="gzip members"),
        pytest.param(lambda tar: zstd.compress(tar), id="zstd"),
        pytest.param(lambda tar: zstd.compress(tar[:700]) + zstd.compress(tar[700:]), id="zstd frames"),
    ],
)
def test_layers_are_unpacked_however_they_are_packed(tmp_path: Path, pack: Any) -> None:
    data = os.urandom(3 << 20)
    tar = tar_of(file("a", data), file("b", b"b"))
    layer = unpack(tmp_path, tar, pack(tar))
    assert (layer / "a").read_bytes() == data
    assert (layer / "b").read_bytes() == b"b"


@pytest.mark.parametrize("tar", [tar_of(), b"\0" * 1024])
def test_an_empty_layer_is_a_layer(tmp_path: Path, tar: bytes) -> None:
    assert everything(unpack(tmp_path, tar)) == set()


def test_what_a_layer_takes_is_counted(tmp_path: Path) -> None:
    tar = tar_of(folder("d"), file("d/a", b"12345"), link("l", "d"))
    (tmp_path / "blob").write_bytes(tar)
    assert extract_layer(tmp_path / "blob", tmp_path / "layer", sha256(tar), LIMITS) == Extracted(5, 3)


TAR = tar_of(file("a", os.urandom(5000)), file("b", b"b"))


def damaged_header(tar: bytes) -> bytes:
    at = 512 + 5120  # the second header
    return tar[:at] + b"garbage!" + tar[at + 8 :]


@pytest.mark.parametrize(
    ("blob", "words"),
    [
        (b"", "damaged"),
        (b"not a tar" * 100, "damaged"),
        (TAR[:3000], "damaged"),
        (gzip.compress(TAR)[:-50], "damaged"),
        (gzip.compress(TAR)[:-8] + b"12345678", "damaged"),
        (gzip.compress(TAR) + b"trailing", "damaged"),
        (zstd.compress(TAR)[:-50], "damaged"),
        (b"\x28\xb5\x2f\xfdnonsense", "damaged"),
        (damaged_header(TAR), "damaged"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (tar_of(file("another")), "bad digest: a layer unpacks to"),
        (TAR + b"\0" * 512, "bad digest"),
    ],
)
def test_damaged_layers_are_refused(tmp_path: Path, blob: bytes, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        unpack(tmp_path, TAR, blob)


def pax_bomb(size: int) -> bytes:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, size
    return info.tobuf(tarfile.GNU_FORMAT)


def zeros(size: int, pack: str) -> bytes:
    if pack == "zstd":
        return zstd.compress(b"\0" * size)
    return gzip.compress(b"\0" * size)


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_a_small_blob_cannot_unpack_to_more_than_the_limit(tmp_path: Path, pack: str, golden: Golden) -> None:
    blob = zeros(64 << 20, pack)
    assert len(blob) < 100_000
    with pytest.raises(ImageError) as refused:
        unpack(tmp_path, b"", blob)
    assert str(refused.value) == golden


def test_headers_cannot_take_memory(tmp_path: Path) -> None:
    for bomb in (pax_bomb(5 << 30), pax_bomb(-512)):
        with pytest.raises(ImageError, match="damaged"):
            unpack(tmp_path, bomb + b"\0" * 4096)
        (tmp_path / "deep" / "layer").rmdir()


def test_headers_within_headers_come_to_an_end(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="damaged"):
        unpack(tmp_path, pax_bomb(0) * 5000 + b"\0" * 1024)


def test_sparse_files_keep_their_holes(tmp_path: Path) -> None:
    # PAX sparse format 0.1: the map stands in the header, the data has no holes.
    info = tarfile.TarInfo("sparse")
    info.size = 4
    info.pax_headers = {
        "GNU.sparse.map": "4096,4",
        "GNU.sparse.size": "1048576",
        "GNU.sparse.name": "sparse",
        "GNU.sparse.numblocks": "1",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(b"data"))
        tar.addfile(*((lambda pair: (pair[0], io.BytesIO(pair[1])))(file("after", b"after"))))
    layer = unpack(tmp_path, out.getvalue())
    data = (layer / "sparse").read_bytes()
    assert (len(data), data[4096:4100], data.strip(b"\0")) == (1048576, b"data", b"data")
    assert (layer / "sparse").stat().st_blocks < 100
    assert (layer / "after").read_bytes() == b"after"


@pytest.mark.parametrize("hole", ["-1,4", "4,-1", "1048576,4"])
def test_holes_outside_of_their_file_are_refused(tmp_path: Path, hole: str) -> None:
    headers = {"GNU.sparse.map": hole, "GNU.sparse.size": "1048576", "GNU.sparse.name": "sparse"}
    with pytest.raises(ImageError, match="damaged"):
        unpack_members(tmp_path, file("sparse", b"data", pax_headers=headers))


def test_room_on_the_disk_is_kept(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(ImageError) as refused:
        unpack(tmp_path, TAR, limits=LayerLimits(reserve_bytes=1 << 60))
    assert str(refused.value) == golden


def test_a_full_disk_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ImageError, match="No space left on device"):
        unpack(tmp_path, TAR)


def test_names_in_any_encoding_arrive_as_they_are(tmp_path: Path) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        tar.addfile(tarfile.TarInfo(name))
    assert [os.fsencode(path.name) for path in unpack(tmp_path, out.getvalue()).iterdir()] == [b"caf\xe9"]


def test_a_layer_is_what_the_blob_helper_says() -> None:
    assert gzip.decompress(Layer(TAR).blob) == TAR
