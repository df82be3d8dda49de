from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.isolator.ldcache import libraries
from tests.support.driver_machine import loader_cache

ENTRIES = [("libcuda.so.1", "/usr/lib/libcuda.so.1"), ("libm.so.6", "/lib/libm.so.6"), ("libcuda.so.1", "/lib32/x")]


@pytest.mark.parametrize("old_too", [False, True])
def test_entries_in_order_in_both_forms(old_too: bool) -> None:
    assert list(libraries(loader_cache(ENTRIES, old_too=old_too))) == ENTRIES


@given(st.binary(max_size=200), st.integers(0, 400))
def test_what_is_no_cache_or_cut_short_never_raises(noise: bytes, cut: int) -> None:
    list(libraries(noise))
    assert len(list(libraries(loader_cache(ENTRIES)[:cut]))) <= len(ENTRIES)


def test_this_machines_cache_as_ldconfig_prints_it() -> None:
    ldconfig = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if ldconfig is None or not Path("/etc/ld.so.cache").exists():
        pytest.skip("this machine has no ldconfig with a cache")
    said = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    printed = re.findall(r"^\t(\S+) \(libc6.*\) => (\S+)$", said, re.MULTILINE)
    assert len(printed) > 10
    assert list(libraries(Path("/etc/ld.so.cache").read_bytes())) == printed
