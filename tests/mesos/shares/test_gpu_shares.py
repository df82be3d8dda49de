"""Parts of GPUs as ranges, and what tasks say of them in cGPU's variables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.model.resources import parse_attributes
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.cgpu import DEVICES, DISABLE, MEM_CONTAINER, ShareAsk, disagreement, read_ask
from mesos_gpu.mesos.shares.gpu_links import cards_label, labelled_cards, links_text, read_links
from mesos_gpu.mesos.shares.gpu_shares import (
    GPU_MEM,
    CardPart,
    SharedCard,
    lowest,
    offered,
    parts,
    problem,
    room_by_card,
    units,
)
from mesos_gpu.mesos.shares.levels import PROMISES, WORDS, Level, level_named, shortfall, strongest, table, weakest
from tests.support.golden import Golden

T4 = SharedCard(0, "GPU-zero", 15109, 25)
T4_2 = SharedCard(2, "GPU-two", 15109, 10)
CARDS = {0: T4, 2: T4_2}


def test_a_card_is_offered_in_whole_gib_and_slices_from_its_thousand_on() -> None:
    text = offered([T4, T4_2])
    assert text == "gpu_mem:[0-14,2000-2014];gpu_slices:[0-24,2000-2009]"
    assert parts(Resources.parse(text)) == (CardPart(0, 15, 25), CardPart(2, 15, 10))
    assert offered([]) == ""


@pytest.mark.parametrize(("units_taken", "mib"), [(6, 6043), (15, 15109), (0, 0)])
def test_a_part_shows_as_many_mib_as_cgpu_says(units_taken: int, mib: int) -> None:
    assert T4.memory_of(units_taken) == mib


def test_units_are_positions_on_their_card() -> None:
    taken = Resources.parse("gpu_mem:[1003-1008,2000-2000];cpus:1")
    assert units(taken, "gpu_mem") == {1: [3, 4, 5, 6, 7, 8], 2: [0]}


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("gpu_mem:[0-5];gpu_slices:[0-1]", 1),
        ("cpus:1", 1),
        ("gpu_mem:[0-5,2000-2002];gpu_slices:[0-0,2000-2000]", 2),
    ],
)
def test_units_of_as_many_cards_as_are_shared_are_accepted(text: str, cards: int) -> None:
    assert problem(Resources.parse(text), CARDS, cards) is None


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("gpu_mem:6", 1),
        ("gpu_mem:[0-5];gpu_slices:[0-1];gpus:1", 1),
        ("gpu_mem:[1000-1005];gpu_slices:[1000-1001]", 1),
        ("gpu_mem:[0-5]", 1),
        ("gpu_slices:[0-1]", 1),
        ("gpu_mem:[2000-2005];gpu_slices:[2000-2010]", 1),
        ("gpu_mem:[0-5];gpu_slices:[2000-2000]", 1),
        ("gpu_mem:[0-5,2000-2002];gpu_slices:[0-0,2000-2000]", 1),
        ("gpu_mem:[0-5];gpu_slices:[0-0]", 2),
    ],
)
def test_an_agent_says_why_units_are_no_part_of_its_cards(text: str, cards: int, golden: Golden) -> None:
    assert problem(Resources.parse(text), CARDS, cards) == golden


def test_without_shared_cards_every_part_is_refused(golden: Golden) -> None:
    assert problem(Resources.parse("gpu_mem:[0-5];gpu_slices:[0-0]"), {}, 1) == golden


@pytest.mark.parametrize(
    ("environment", "ask"),
    [
        ({}, None),
        ({MEM_CONTAINER: "0"}, None),
        ({MEM_CONTAINER: "1,0,0"}, None),
        ({MEM_CONTAINER: "6", DISABLE: "true"}, None),
        ({MEM_CONTAINER: "6"}, ShareAsk((6,))),
        ({MEM_CONTAINER: "3,1", DEVICES: "0,1,2,3"}, ShareAsk((3, 1, 1, 1), devices=("0", "1", "2", "3"))),
        ({MEM_CONTAINER: "3", DEVICES: "0,GPU-x"}, ShareAsk((3, 3), devices=("0", "GPU-x"))),
        (
            {MEM_CONTAINER: "6", "ALIYUN_COM_GPU_MEM_DEV": "15", "ALIYUN_COM_GPU_SCHD_WEIGHT": "2"},
            ShareAsk((6,), 2, card_gib=15),
        ),
        ({MEM_CONTAINER: "6", "ALIYUN_COM_GPU_HIGH_PRIO": "1"}, ShareAsk((6,), high_priority=True)),
    ],
)
def test_variables_are_read_as_cgpu_reads_them(environment: dict[str, str], ask: ShareAsk | None) -> None:
    assert read_ask(environment) == ask


@pytest.mark.parametrize(
    "environment",
    [
        {MEM_CONTAINER: "six"},
        {MEM_CONTAINER: "1,0,2"},
        {MEM_CONTAINER: "3,1,1", DEVICES: "0,1"},
        {MEM_CONTAINER: "3", DEVICES: "all"},
        {MEM_CONTAINER: "3", DEVICES: "1,1"},
        {MEM_CONTAINER: "3", "ALIYUN_COM_GPU_SCHD_WEIGHT": "26"},
        {MEM_CONTAINER: "3", "ALIYUN_COM_GPU_HIGH_PRIO": "yes"},
    ],
    ids=["no number", "0 GiB", "other lengths", "all", "twice", "weight", "priority"],
)
def test_variables_that_mean_nothing_are_refused_in_words(environment: dict[str, str], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_ask(environment)
    assert str(refused.value) == golden


@given(
    st.builds(
        ShareAsk,
        st.lists(st.integers(1, 80), min_size=1, max_size=4).map(tuple),
        st.integers(1, 25),
        st.booleans(),
        card_gib=st.none() | st.integers(1, 80),
    )
)
def test_an_ask_written_as_variables_is_read_again(ask: ShareAsk) -> None:
    assert read_ask(ask.variables()) == ask


PART = (CardPart(0, 6, 2),)


@pytest.mark.parametrize("ask", [None, ShareAsk((6,), 2), ShareAsk((6,), 2, devices=("GPU-zero",), card_gib=15)])
def test_variables_that_ask_for_what_was_taken_are_accepted(ask: ShareAsk | None) -> None:
    assert disagreement(ask, PART, CARDS) is None


@pytest.mark.parametrize(
    ("ask", "taken"),
    [
        (ShareAsk((6,), 2), ()),
        (ShareAsk((4,), 2), PART),
        (ShareAsk((6,), 1), PART),
        (ShareAsk((6,), 2, card_gib=16), PART),
        (ShareAsk((6,), 2, devices=("2",)), PART),
    ],
    ids=["nothing taken", "less memory", "less weight", "larger card", "another card"],
)
def test_what_was_taken_must_be_what_the_variables_ask_for(
    ask: ShareAsk, taken: tuple[CardPart, ...], golden: Golden
) -> None:
    assert disagreement(ask, taken, CARDS) == golden


def test_room_by_card_is_the_number_of_units_of_each() -> None:
    resources = Resources.parse("gpu_mem:[3-14,1000-1009,2999-3001];gpu_slices:[0-0]")
    assert room_by_card(resources, GPU_MEM) == {0: 12, 1: 10, 2: 1, 3: 2}
    assert room_by_card(resources, GPU_MEM) == {card: len(free) for card, free in units(resources, GPU_MEM).items()}


@given(st.sets(st.integers(0, 2030)), st.integers(0, 2), st.integers(0, 20))
def test_the_lowest_units_of_a_card_are_those_that_a_list_of_all_begins_with(
    free: set[int], card: int, count: int
) -> None:
    text = ",".join(f"{unit}-{unit}" for unit in free)
    resources = Resources.parse(f"{GPU_MEM}:[{text}]") if free else Resources()
    found = lowest(resources, GPU_MEM, card, count)
    numbers = [number for first, last in found for number in range(first, last + 1)]
    assert numbers == [card * 1000 + position for position in units(resources, GPU_MEM).get(card, [])[:count]]


SETS = st.lists(st.frozensets(st.integers(0, 255), min_size=2, max_size=8), max_size=6, unique=True)


def test_the_largest_sets_come_first() -> None:
    assert links_text([{4, 0}, {3, 2, 1, 0}, {7, 6, 5, 4}]) == "0-1-2-3/4-5-6-7/0-4"


@given(SETS)
def test_what_is_told_is_read_and_is_text_in_mesos_grammar(sets: list[frozenset[int]]) -> None:
    text = links_text(sets)
    assert set(read_links(text)) == set(sets)
    if sets:
        assert parse_attributes(f"gpu_nvlink:{text}") == [
            {"name": "gpu_nvlink", "type": "TEXT", "text": {"value": text}}
        ]


@pytest.mark.parametrize("text", ["", "0", "0/1", "0-0", "a-b", "0-1-", "-1-2", "1000-1001", "yes"])
def test_what_is_of_no_such_form_says_nothing(text: str) -> None:
    assert read_links(text) == ()


def test_of_a_great_many_sets_the_largest_are_told() -> None:
    sets = [frozenset((one, one + 1)) for one in range(200)] + [frozenset((0, 1, 2))]
    assert len(read_links(links_text(sets))) == 64
    assert read_links(links_text(sets))[0] == {0, 1, 2}


def test_a_label_says_which_cards_a_task_has() -> None:
    status = {"labels": {"labels": [{"key": "other", "value": "1"}, cards_label((3, 0))]}}
    assert labelled_cards(status) == (0, 3)


@pytest.mark.parametrize("value", ["", "GPU-1", "0,", "0, 1", "-1", "1000"])
def test_another_label_says_nothing(value: str) -> None:
    assert labelled_cards({"labels": {"labels": [{"key": "gpu.cards", "value": value}]}}) == ()
    none: list[dict[str, Any]] = [{}, {"labels": {}}, {"labels": {"labels": [{"key": "gpu.cards"}]}}]
    assert [labelled_cards(status) for status in none] == [(), (), ()]


DOCS = Path(__file__).parents[3] / "docs"


def test_the_strongest_that_is_there_is_chosen_and_the_weakest_card_counts() -> None:
    assert strongest([]) is Level.ADVISORY
    assert strongest([Level.WATCHER, Level.CGROUP, Level.MPS]) is Level.CGROUP
    assert weakest([Level.CGROUP, Level.WATCHER]) is Level.WATCHER
    assert weakest([]) is Level.ADVISORY
    assert list(PROMISES) == sorted(Level, reverse=True)


def test_names_are_read_and_others_refused() -> None:
    assert [level_named(word) for word in WORDS] == list(Level)
    with pytest.raises(ValueError, match=r"'hard'.*mig, cgroup, mps, watcher, advisory"):
        level_named("hard")


@pytest.mark.parametrize("required", Level)
@pytest.mark.parametrize("there", Level)
def test_less_than_required_is_refused_in_words(required: Level, there: Level) -> None:
    words = shortfall(required, 2, there)
    assert (words is None) == (there >= required)
    if words is not None:
        assert re.search(rf"'{required.word}'.* 2 .*'{there.word}'", words)


def test_the_documentation_has_the_table() -> None:
    (page,) = [path for path in DOCS.rglob("sharing.md") if "# One GPU" in path.read_text()]
    assert table() in page.read_text()
