"""The benchmark of placement, on a trace of a few machines made up here."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks import placement
from benchmarks.kept.figures import FILE_VARIABLE, read_figures


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
    way = placement.Way(trace)
    outcome = placement.fill(way, "default", policy, seed=1)
    assert outcome.filled >= 90
    assert placement.fill(way, "default", policy, seed=1).filled == outcome.filled


@pytest.mark.parametrize("policy", placement.POLICIES_SHOWN)
@pytest.mark.parametrize("together", [1, 4])
def test_through_offers_shares_and_whole_cards_are_filled_as_well(trace: Path, policy: str, together: int) -> None:
    found = placement.fill(placement.Way(trace, card_gib=100, together=together), "default", policy, seed=1)
    assert found.filled >= 90


def test_cards_of_few_gib_lose_what_is_not_a_whole_one(trace: Path) -> None:
    (trace / "openb_pod_list_third.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,10,10,1,330,\n"
    )
    filled = [
        placement.fill(placement.Way(trace, card_gib=gib), "third", "capacity", seed=1).filled for gib in (100, 4)
    ]
    # Three of a third fit on a card of 100 GiB; a third of 4 GiB is two.
    assert filled == [pytest.approx(99.0), pytest.approx(66.0)]


def test_the_table_names_the_way_without_offers_beside(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gains = placement.show(placement.Way(trace, card_gib=100, together=4), ["default"], ["capacity"], 1, 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[:2]] == [
        ["seed", "0:", "default", "capacity"],
        ["seed", "0:", "default", "no"],
    ]
    assert lines[2].split()[:4] == ["list", "published", "FGD", "capacity"]
    filled = float(lines[3].split()[2])
    assert gains == [pytest.approx(filled - placement.PUBLISHED["default"], abs=0.01)]


def test_what_is_ended_early_has_the_seeds_that_came_for_all_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "figures"))
    first, second = placement.Outcome(90.0, (1.0,)), placement.Outcome(96.0, (2.0,))
    found = {
        "default": {"fgd": [first, second], "capacity": [first]},
        "cpu050": {"fgd": [first], "capacity": list[placement.Outcome]()},
    }
    assert placement.show_table(placement.Way(tmp_path, every=4), found, "capacity") == [pytest.approx(90.0 - 95.23)]
    assert "cpu050" not in capsys.readouterr().out
    figures = {one.key: one for one in read_figures((tmp_path / "figures").read_text())}
    assert figures.keys() == {"default", "decision"}
    assert figures["default"].note == "90.00, seed 0; fgd 90.00"


def test_a_list_that_is_not_there_is_named(trace: Path) -> None:
    with pytest.raises(SystemExit, match="openb_pod_list_cpu050"):
        placement.pods_of(trace, "cpu050")
