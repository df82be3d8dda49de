"""The benchmark of placement, on a trace of a few machines made up here."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks import placement


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{at},8000,8000,2,T4\n" for at in range(4))
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(nodes)
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        + "p,1000,1000,1,1000,\nq,1000,1000,1,500,T4\nr,500,1,0,0,\n"
    )
    (tmp_path / "openb_pod_list_default.csv.gz").write_bytes(gzip.compress(pods.encode()))
    return tmp_path


@pytest.mark.parametrize("policy", placement.POLICIES_SHOWN)
def test_a_trace_whose_sizes_divide_a_card_is_filled_nearly(trace: Path, policy: str) -> None:
    outcome = placement.fill(trace, "default", policy, seed=1)
    assert outcome.filled >= 90
    assert placement.fill(trace, "default", policy, seed=1).filled == outcome.filled


def test_a_list_that_is_not_there_is_named(trace: Path) -> None:
    with pytest.raises(SystemExit, match="openb_pod_list_cpu050"):
        placement.pods_of(trace, "cpu050")
