"""Where the master is."""

from __future__ import annotations

from mesos_gpu.marathon.engine.master_info import address, region


def test_address_and_region() -> None:
    info = {"hostname": "m", "port": 5050}
    assert address(info) == "m:5050"
    assert region(info) is None
    assert region({**info, "domain": {"fault_domain": {"region": {"name": "us"}, "zone": {"name": "a"}}}}) == "us"
