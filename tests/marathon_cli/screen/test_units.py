from __future__ import annotations

import pytest

from marathon_cli.screen import units
from mesos_gpu.errors import BadInput


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (119, "119s"), (200, "3m20s"), (2820, "47m"), (18720, "5h12m"), (108000, "30h"), (1036800, "12d")],
)
def test_a_duration_is_as_kubectl_writes_it(seconds: float, text: str) -> None:
    assert units.span(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [("7", 7), ("512m", 512 << 20), ("1.5g", 3 << 29), ("1gb", 1 << 30), ("20 GiB", 20 << 30), ("2T", 2 << 40)],
)
def test_a_size_is_read_as_docker_reads_it(text: str, size: int) -> None:
    assert units.read_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1g", "1x", "1 2"])
def test_what_is_no_size_and_no_time_is_refused(text: str) -> None:
    for read in (units.read_size, units.read_span):
        with pytest.raises(ValueError):
            read(text)


def test_a_time_is_ago_or_a_date() -> None:
    assert units.ago("90m", 10_000.0) == 4600.0
    assert units.ago("4w", 0.0) == 0.0
    assert units.ago("1970-01-01T00:00:10Z", 0.0) == 10.0
    with pytest.raises(BadInput):
        units.ago("soon", 0.0)


def test_what_is_not_known_is_dashes() -> None:
    assert [units.amount(None), units.mebibytes(None), units.size("?")] == [units.NONE] * 3
    assert [units.amount(7, "W"), units.mebibytes(1024), units.size(3 << 19)] == ["7 W", "1024 MiB", "1.5 MiB"]
