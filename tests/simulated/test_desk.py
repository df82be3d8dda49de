"""What is said to the simulated cards and answered: who waits, who is refused, whose processes one sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.simulated.desk import MOST_QUEUED, Desk
from mesos_gpu.simulated.machine import Machine, Peer

MS, MIB = 1_000_000, 1 << 20


class Talk:
    """A desk with a clock that is set by hand; what each client hears is kept."""

    def __init__(self) -> None:
        self.desk = Desk(Machine({0: 1024 * MIB, 1: 1024 * MIB}))
        self.now_ns = 0
        self.heard: dict[int, bytes] = {}

    def come(
        self, number: int, owner: str = "", card: int | None = None, *, allowed: tuple[int, ...] = (0, 1), pid: int = 0
    ) -> None:
        peer = Peer(pid or number, owner, frozenset({f"/root/{owner}"}), inner=7 if owner else 0, namespace=len(owner))
        self.desk.come(number, peer, card, lambda card: card in allowed)

    def say(self, number: int, *lines: str) -> str:
        self.heard.pop(number, None)
        self._keep(self.desk.hear(number, "".join(f"{line}\n" for line in lines).encode(), self.now_ns))
        return self.told(number)

    def told(self, number: int) -> str:
        return self.heard.pop(number, b"").decode().rstrip("\n")

    def json(self, number: int, line: str) -> Any:
        return json.loads(self.say(number, line))

    def wait(self, ms: float) -> None:
        self.now_ns += int(ms * MS)
        self._keep(self.desk.tick(self.now_ns))

    def go(self, number: int) -> None:
        self._keep(self.desk.go(number, self.now_ns))

    def _keep(self, answers: list[tuple[int, bytes]]) -> None:
        for number, words in answers:
            self.heard[number] = self.heard.get(number, b"") + words


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.come(1, "a")
    talk.come(2, "bb")
    talk.come(3)
    return talk


def test_memory_is_asked_for_and_refused(talk: Talk) -> None:
    assert talk.say(1, "context 0") == "ok 1"
    assert talk.say(1, f"alloc 1 {1000 * MIB}") == "ok 2"
    assert talk.say(1, f"alloc 1 {25 * MIB}") == "err 2"
    assert talk.say(1, "left 1") == f"ok {24 * MIB} {1024 * MIB} {1000 * MIB}"
    assert talk.say(2, "room 0") == f"ok {24 * MIB} {1024 * MIB}"
    assert talk.say(1, "free 2", "close 1", "left 1") == "ok\nok\nerr 201"


@pytest.mark.parametrize("line", ["", "what", "context", "context x", "card", "launch 1", "restore 1 x"])
def test_what_is_no_request_is_refused(talk: Talk, line: str) -> None:
    assert talk.say(1, line).startswith("err ")


def test_a_card_whose_node_one_does_not_have_is_refused(talk: Talk) -> None:
    talk.come(4, "c", allowed=(1,))
    assert talk.say(4, "context 0") == "err 101"
    assert talk.say(4, "context 1") == "ok 1"
    assert talk.say(4, "card 9") == "err 101"


def test_who_waits_for_a_stream_is_answered_when_it_is_done(talk: Talk) -> None:
    talk.say(1, "context 0")
    assert talk.say(1, f"launch 1 0 {5 * MS}", f"launch 1 3 {5 * MS}", "record 1 3") == "ok\nok\nok 4"
    assert talk.say(1, "busy 1 3", "reached 4") == "err 600\nerr 600"
    assert talk.desk.next_ns() == 5 * MS
    assert talk.say(1, "sync 1 0", "await 4", "room 0") == ""
    talk.wait(6)
    assert talk.told(1) == "ok"
    talk.wait(6)
    assert talk.told(1).splitlines()[0] == f"ok {10 * MS}"
    assert talk.say(1, "busy 1 3", "reached 4", "await 4", "sync 1", "drop 4", "reached 4") == (
        f"ok\nok {10 * MS}\nok {10 * MS}\nok\nok\nerr 400"
    )
    assert talk.say(1, "launch 1 0 -1") == "err 1"


def test_a_launch_beyond_what_a_card_queues_waits(talk: Talk) -> None:
    talk.say(1, "context 0")
    assert talk.say(1, *[f"launch 1 0 {MS}"] * MOST_QUEUED).count("ok") == MOST_QUEUED
    assert talk.say(1, f"launch 1 0 {MS}") == ""
    talk.wait(1)
    assert talk.told(1) == "ok"


def test_a_client_that_goes_takes_its_work_along_and_who_waited_for_it_goes_on(talk: Talk) -> None:
    talk.come(4, "a", pid=1)
    talk.say(1, "context 0")
    talk.say(1, f"launch 1 0 {100 * MS}")
    assert talk.say(4, "sync 1") == ""
    talk.go(1)  # the process has another connection: nothing ends
    assert talk.told(4) == ""
    talk.come(5, "a", pid=1)
    talk.say(5, "close 1")
    assert talk.desk.machine.next_ns() is None


def test_kernels_by_the_socket_of_a_card_are_answered_one_by_one(talk: Talk) -> None:
    talk.come(4, "a", card=0, pid=44)
    assert talk.say(4, "K 2.5", "K x", "K 1e400") == ""
    talk.wait(3)
    assert talk.told(4) == "D\nD\nD"
    assert json.loads(talk.say(4, "S"))["a"] == [0.0025, True, False]
    talk.go(4)
    assert json.loads(_say_on_card(talk, 5, "S"))["a"] == [0.0025, False, False]


def _say_on_card(talk: Talk, number: int, line: str) -> str:
    talk.come(number, card=0)
    return talk.say(number, line)


def test_memory_by_the_socket_of_a_card_replaces_what_was_there(talk: Talk) -> None:
    talk.come(4, "a", card=0)
    assert talk.say(4, "A 100", "A 900", "M") == 'A\nA\n{"a": 900}'
    assert talk.say(4, "A 2000", "A x", "M", "A 0") == "E\nE\n{}\nA"


def test_limits_are_set_from_outside_of_containers_alone(talk: Talk) -> None:
    line = f"limit 0 0 {100 * MIB} /sys/fs/cgroup/root/a"
    assert talk.say(1, line) == "err 800"
    assert talk.say(3, line) == "ok"
    assert talk.say(3, "limits 0 /root/a") == f"ok 0 {100 * MIB} 0"
    assert talk.say(1, "context 0", f"alloc 1 {101 * MIB}", "card 0") == f"ok 1\nerr 2\nok 0 0 {100 * MIB} 0 0"
    assert talk.say(1, "end") == "err 800"
    assert not talk.desk.ends()
    assert talk.say(3, "end") == "ok"
    assert talk.desk.ends()


def test_the_old_word_for_the_end_counts_from_outside_alone(talk: Talk) -> None:
    talk.come(4, "a", card=0)
    talk.say(4, "Q")
    assert not talk.desk.ends()
    _say_on_card(talk, 5, "Q")
    assert talk.desk.ends()


def test_one_sees_the_processes_of_ones_container_and_from_outside_all(talk: Talk) -> None:
    talk.say(1, "context 0", f"alloc 1 {MIB}", f"launch 1 0 {500 * MS}")
    talk.say(2, "context 0")
    talk.wait(1000)
    assert talk.say(1, "processes 0") == f"ok 7:{MIB}:50"
    assert talk.say(3, "processes 0").split() == ["ok", f"1:{MIB}:50", "2:0:0"]
    assert talk.say(1, "samples 0 0").split()[:2] == ["ok", "100000:7:100"]
    assert talk.say(2, "samples 0 0") == "ok"
    told = talk.json(3, "figures")
    assert told["cards"]["0"]["processes"][0] == {"pid": 1, "container": "a", "bytes": MIB, "percent": 50}
    assert (told["cards"]["0"]["used_s"], told["states"]) == ({"a": 0.5}, {"1": 0, "2": 0})


def test_a_locked_process_waits_with_all_that_it_asks_until_it_is_unlocked(talk: Talk) -> None:
    talk.say(1, "context 0", f"alloc 1 {MIB}", f"launch 1 0 {10 * MS}")
    assert talk.say(3, "lock 1 0") == ""
    assert talk.say(1, f"launch 1 0 {MS}") == ""
    talk.wait(11)
    assert (talk.told(3), talk.told(1)) == ("ok", "")
    assert talk.say(3, "state 1", "checkpoint 1", "state 1") == "ok 1\nok\nok 2"
    assert talk.say(3, "processes 0", "checkpoint 1", "restore 1 0=1", "unlock 1") == "ok\nerr 401\nok\nok"
    assert talk.told(1) == "ok"
    assert talk.say(3, "processes 1") == f"ok 1:{MIB}:0"
    assert talk.say(3, "state 77") == "err 1"


def test_a_lock_is_given_up_after_its_time_and_the_process_goes_on(talk: Talk) -> None:
    talk.say(1, "context 0", f"launch 1 0 {100 * MS}")
    assert talk.say(3, "lock 1 20") == ""
    assert talk.say(1, f"launch 1 0 {MS}") == ""
    assert talk.desk.next_ns() == 20 * MS
    talk.wait(20)
    assert (talk.told(3), talk.told(1)) == ("err 600", "ok")


def test_a_lock_of_a_process_that_ends_is_refused(talk: Talk) -> None:
    talk.say(1, "context 0", f"launch 1 0 {100 * MS}")
    assert talk.say(3, "lock 1 0") == ""
    talk.go(1)
    assert talk.told(3) == "err 1"


def test_a_process_may_put_itself_away_and_back_and_others_of_other_containers_may_not(talk: Talk) -> None:
    talk.say(1, "context 0")
    assert talk.say(2, "lock 1 0") == "err 1"
    assert talk.say(1, "lock 7 0", "checkpoint 7", "restore 7", "unlock 7", "sync 1") == "ok\nok\nok\nok\nok"


def test_a_process_that_is_ended_while_it_is_locked_leaves_nothing(talk: Talk) -> None:
    talk.say(1, "context 0", f"alloc 1 {MIB}")
    talk.say(3, "lock 1 0", "checkpoint 1")
    talk.go(1)
    assert talk.say(3, "state 1", "card 0") == f"err 1\nok 0 0 {1024 * MIB} 0 0"
