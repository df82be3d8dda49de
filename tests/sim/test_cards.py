"""What the simulator's judge says of shared cards: nothing where books are right, else what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart
from tests.sim.actors import names_of
from tests.sim.books import counted, of_master, of_tasks, units
from tests.sim.cards import Card, cards_of, overbooked
from tests.sim.machine import Container
from tests.sim.sharing import Sharing

CARDS = {1: Card(15109), 3: Card(15109)}
KERNEL: Any = None


def container(task: str, *parts: CardPart, gpus: tuple[str, ...] = ()) -> Container:
    config = ContainerConfig(
        container_id=ContainerId(f"of-{task}"), argv=("serve",), environment={"MESOS_TASK_ID": task},
        sandbox=Path("/sandbox"), user="root", cpus_milli=100, mem_bytes=32 << 20, gpus=len(gpus),
    )  # fmt: skip
    made = Container(config, frozenset(gpus), KERNEL, 0.0)
    made.booked = made.parts = parts
    return made


class _Machine:
    """A machine as far as books are concerned."""

    def __init__(self, *containers: Container) -> None:
        self.cards, self.doubted = CARDS, set[int]()
        self.running = {one.config.container_id: one for one in containers}

    def tasks(self) -> list[str]:
        return [one.task for one in self.running.values()]


def state(*tasks: tuple[str, str, str], total: str = "1000-1014,3000-3014", slices: str = "") -> Any:
    """Return a master's: tasks by name, with ranges of GiB and slices."""
    of_tasks = [
        {
            "id": name,
            "slave_id": "S1",
            "state": "TASK_RUNNING",
            "resources": {"gpu_mem": f"[{gib}]", "gpu_slices": f"[{weight}]"},
        }
        for name, gib, weight in tasks
    ]
    used = {
        "gpu_mem": f"[{','.join(gib for _, gib, _ in tasks)}]",
        "gpu_slices": f"[{','.join(weight for _, _, weight in tasks)}]",
    }
    all_ = {"gpu_mem": f"[{total}]", "gpu_slices": f"[{slices or '1000-1024, 3000-3024'}]"}
    agent = {"id": "S1", "hostname": "agent", "used_resources": used, "resources": all_}
    return {"slaves": [agent], "frameworks": [{"tasks": of_tasks}]}


def test_cards_are_of_a_seed_and_as_many_as_were_asked_for() -> None:
    assert cards_of(7, "agent-2", 4, 2) == cards_of(7, "agent-2", 4, 2)
    drawn = [tuple(cards_of(seed, "agent-2", 4, 2)) for seed in range(30)]
    assert {len(numbers) for numbers in drawn} == {2}
    assert len(set(drawn)) > 3
    assert [Card(mib).gib for mib in (15109, 16384, 24564)] == [15, 16, 24]


def test_seeds_that_were_played_before_cards_were_shared_are_as_they_were() -> None:
    assert not any(Sharing.name in names_of(seed, [Sharing], None) for seed in (*range(10_000), 568991173))
    drawn = [Sharing.name in names_of(seed, [Sharing], None) for seed in range(10_000, 11_000)]
    assert 200 < sum(drawn) < 400
    assert names_of(7, [Sharing], ["sharing"]) == ["sharing"]


@pytest.mark.parametrize(
    ("containers", "words"),
    [
        ([container("a", CardPart(1, 10, 20)), container("b", CardPart(1, 5, 5), CardPart(3, 15, 25))], []),
        ([container("a", CardPart(1, 10, 1)), container("b", CardPart(1, 6, 1))], ["16 of 15 GiB"]),
        ([container("a", CardPart(1, 1, 13)), container("b", CardPart(1, 1, 13))], ["26 of 25 slices of card 1"]),
        ([container("a", gpus=("GPU-agent-3",))], ["card 3 is shared, and a has it whole"]),
        ([container("a", CardPart(1, 1, 1), gpus=("GPU-agent-2",))], ["a has GPUs of its own and parts of others"]),
        ([container("a", CardPart(2, 1, 1))], ["card 2 are used: a 1 GiB"]),
    ],
)
def test_more_than_a_card_has_is_found(containers: list[Container], words: list[str]) -> None:
    said = list(overbooked(CARDS, containers))
    assert len(said) == len(words)
    assert all(word in one for word, one in zip(words, said, strict=True))


def test_ranges_are_counted_by_card() -> None:
    resources = {"gpu_mem": "[1000-1005, 3002-3002]", "gpu_slices": "[1003-1004, 3000-3000]"}
    assert units(resources, "gpu_mem") == [1000, 1001, 1002, 1003, 1004, 1005, 3002]
    assert counted(resources) == {1: (6, 2), 3: (1, 1)}
    assert counted({"cpus": 2}) == {}


def test_books_that_agree_are_said_nothing_of() -> None:
    machines: Any = {"agent": _Machine(container("a", CardPart(1, 6, 2)), container("b", CardPart(1, 1, 1)))}
    right = state(("a", "1000-1005", "1000-1001"), ("b", "1006-1006", "1002-1002"))
    assert not [*of_master(right, machines), *of_tasks(right, machines)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (state(("a", "1000-1004", "1000-1001"), ("b", "1006-1006", "1002-1002")), "taken: {1: (7, 3)}"),
        (state(("a", "1000-1005", "1000-1001"), ("b", "1005-1005", "1002-1002")), "gives gpu_mem 1005 of agent"),
        (
            state(("a", "1000-1005", "1000-1001"), ("b", "1006-1006", "1002-1002"), total="1000-1015,3000-3014"),
            "a master has (16, 25) (GiB, slices) of card 1 of agent, and there are (15, 25)",
        ),
    ],
)
def test_books_that_do_not_are_found(wrong: Any, words: str) -> None:
    machines: Any = {"agent": _Machine(container("a", CardPart(1, 6, 2)), container("b", CardPart(1, 1, 1)))}
    assert any(words in said for said in of_master(wrong, machines)), list(of_master(wrong, machines))


def test_what_a_master_has_not_heard_the_end_of_may_be_counted_still() -> None:
    machines: Any = {"agent": _Machine(container("b", CardPart(1, 1, 1)))}
    before = state(("a", "1000-1005", "1000-1001"), ("b", "1006-1006", "1002-1002"))
    assert not list(of_master(before, machines, {"a"}))
    assert len(list(of_master(before, machines, {"b"}))) == 2
    assert not list(of_master(state(("b", "1006-1006", "1002-1002")), machines, {"a"}))
    over = state(("a", "1000-1005", "1000-1001"), ("b", "1006-1006", "1002-1002"))
    over["frameworks"][0]["tasks"][0]["state"] = "TASK_FAILED"
    assert any("taken" in said for said in of_master(over, machines, {"a"}))


def test_a_task_that_has_another_part_than_its_master_counts_is_found() -> None:
    machines: Any = {"agent": _Machine(container("a", CardPart(3, 6, 2)))}
    said = list(of_tasks(state(("a", "1000-1005", "1000-1001")), machines))
    assert said == ["a master counts {1: (6, 2)} for a on agent; it has {3: (6, 2)}"]


def test_what_is_suspended_is_counted_for_it_and_others_are_offered_as_much() -> None:
    away = container("a", CardPart(1, 6, 2))
    away.parts = ()
    machines: Any = {"agent": _Machine(away)}
    more, slices = "1000-1020,3000-3014", "1000-1026, 3000-3024"
    assert not list(of_master(state(("a", "1000-1005", "1000-1001"), total=more, slices=slices), machines))
    [less] = of_master(state(("a", "1000-1005", "1000-1001"), total=more), machines)
    assert "a master has (21, 25) (GiB, slices) of card 1 of agent, and there are (21, 27), (6, 2) of them used" in less
    machines["agent"].doubted = {1}
    assert not list(of_master(state(("a", "1000-1005", "1000-1001"), total=more), machines))
