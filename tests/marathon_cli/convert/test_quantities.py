from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.convert import quantities


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (quantities.cpus, "500m", 0.5),
        (quantities.cpus, "2", 2.0),
        (quantities.cpus, "0.1", 0.1),
        (quantities.cpus, "1n", 0.001),
        (quantities.mib, "1Gi", 1024),
        (quantities.mib, "128974848", 123),
        (quantities.mib, "129e6", 124),
        (quantities.mib, "129M", 124),
        (quantities.mib, "1.5Gi", 1536),
        (quantities.docker_mib, "512m", 512),
        (quantities.docker_mib, "1.5g", 1536),
        (quantities.docker_mib, "8GB", 8192),
        (quantities.docker_mib, "1GiB", 1024),
        (quantities.docker_mib, "1048577", 2),
        (quantities.whole, "2", 2),
        (quantities.whole, "2.0", 2),
        (quantities.whole, "2000m", 2),
        (quantities.seconds, "1m30s", 90),
        (quantities.seconds, "1.5h", 5400),
        (quantities.seconds, "500ms", 1),
        (quantities.seconds, "45", 45),
    ],
)
def test_quantities_are_read_as_kubernetes_and_docker_read_them(reader, text, value) -> None:  # type: ignore[no-untyped-def]
    assert reader(text) == value


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (quantities.cpus, "half"),
        (quantities.cpus, ""),
        (quantities.mib, "1gb"),
        (quantities.mib, "-1"),
        (quantities.docker_mib, "1x"),
        (quantities.docker_mib, "1e3"),
        (quantities.whole, "0.5"),
        (quantities.whole, "500m"),
        (quantities.seconds, "soon"),
        (quantities.seconds, "1m 30s"),
    ],
)
def test_what_is_no_quantity_is_refused_with_its_text(reader, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"is no|is not"):
        reader(text)


@given(st.integers(0, 100), st.integers(1, 200))
def test_percentages_are_rounded_down_for_what_may_miss_and_up_for_what_may_come(percent: int, of: int) -> None:
    down = quantities.part(f"{percent}%", of, upwards=False)
    up = quantities.part(f"{percent}%", of, upwards=True)
    assert down * 100 <= percent * of < (down + 1) * 100
    assert up - down == (percent * of % 100 != 0)
