"""Every public function of the isolators, called with invalid arguments and by several threads at once.

Invalid arguments are refused with an error of this package, and a refused call changes neither memory nor files.
"""

from __future__ import annotations

import inspect
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, MesosGpuError, NotEnoughGpus
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import (
    BASE_RULES,
    Checkpoints,
    DeviceRule,
    HeldGpu,
    ImageManifest,
    NvidiaGpuAllocator,
    NvidiaGpuIsolator,
    discover_gpus,
)
from mesos_gpu.isolator.arguments import MAX_ID_BYTES
from mesos_gpu.isolator.injection import should_inject
from mesos_gpu.isolator.ledger import MasterAccount
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard
from tests.support.histories import examples

DRIVER = SimulatedDriver(5)
WHOLE, SHARED = DRIVER.gpus()[:4], DRIVER.gpus()[4]
CARD = SharedCard(SHARED.index, SHARED.uuid, 15109, 25)
PART = CardPart(SHARED.index, 3, 1)

IDS = ["", ".", "..", "../../x", "a/b", "/etc", "a\0b", "a..b", ".a", "a.", "\udc80", "x" * (MAX_ID_BYTES + 1)]
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(IDS),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.just(object()),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3), st.floats()), min_size=1, max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), min_size=1, max_size=2),
    st.just((CardPart("x", 1, 1),)),  # type: ignore[arg-type]
    st.just(Share((CardPart(SHARED.index, -1, True),))),
    st.just(Share("ab")),  # type: ignore[arg-type]
)
"""Values of many types, and values that were once accepted by mistake."""


def is_id(value: object) -> bool:
    return isinstance(value, str) and value not in IDS and not {"/", "\0"} & set(value) and all(value.split("."))


def is_count(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value == value and abs(value) != float("inf") and value >= 0 and value % 1 == 0


def some(of: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda values: isinstance(values, list | dict | tuple) and all(map(of, values))


def either(*kinds: type | None) -> Callable[[object], bool]:
    return lambda value: any(value is None if kind is None else type(value) is kind for kind in kinds)


GPUS_GIVEN = ([WHOLE[1]], some(lambda value: isinstance(value, Gpu)))
ID, COUNT, FLAG = ("new", is_id), (1, is_count), (True, either(bool))
LABELS = ({}, lambda value: isinstance(value, dict) and all(isinstance(text, str) for text in value.values()))
UUIDS = (["GPU-x"], some(lambda value: isinstance(value, str)))
NAMES = (["a"], some(is_id))
SHARE = (Share((PART,)), either(None))
LOST = ([HeldGpu.of(WHOLE[0])], some(lambda value: isinstance(value, HeldGpu)))
RULES = (BASE_RULES, some(lambda value: isinstance(value, DeviceRule)))
PID = (1, lambda value: type(value) is int and value > 0)
Kind = tuple[object, Callable[[object], bool]]
"""A valid argument, and a predicate that tells whether another value is valid."""

ARGUMENTS: Mapping[str, Mapping[str, Mapping[str, Kind]]] = {
    "isolator": {
        **{key: {"uuids": UUIDS} for key in ["withdraw", "restore"]},
        "manage": {"gpus": (WHOLE, GPUS_GIVEN[1])},
        "lend": {"name": ("n", either(str)), "gpus": GPUS_GIVEN, "lost": LOST},
        "note_lost": {"container_id": ("a", is_id), "lost": LOST},
        "reachable": {"gpu": (WHOLE[0], either(Gpu))},
        "revoke": {"container_id": ("a", is_id), "shares": GPUS_GIVEN},
        "stale": {},
        "tell": {"event": (MasterAccount({}), lambda value: False)},
        "take_back": {"name": ("n", either(str))},
        "plan_for": {"gpus": GPUS_GIVEN},
        "recover": {"live": NAMES},
        "prepare": {"container_id": ID, "gpus": COUNT, "image": FLAG, "labels": LABELS, "debug": FLAG},
        "isolate": {"container_id": ID, "pid": PID, "rules": RULES},
        "update": {"container_id": ("a", is_id), "gpus": COUNT, "release": ([WHOLE[0]], either(None))},
        "reach": {"container_id": ("a", is_id), "gpus": GPUS_GIVEN, "others": GPUS_GIVEN},
        **{key: {"container_id": ("new", is_id)} for key in ["usage", "status", "cleanup"]},
        "close": {},
    },
    "sharing": {
        "minor": {"card": (SHARED.index, lambda value: value == SHARED.index)},
        "recover": {"live": NAMES},
        "prepare": {"container_id": ID, "gpus": (0, is_count), "image": FLAG, "labels": LABELS, "share": SHARE},
        "isolate": {"container_id": ID, "pid": PID, "rules": RULES},
        "update": {"container_id": ("a", is_id), "gpus": COUNT, "release": ([WHOLE[0]], either(None))},
        "reshare": {"container_id": ("s", is_id), "parts": ([PART], lambda value: value in ([], ()))},
        "revoke": {"container_id": ("s", is_id)},
        "stale": {},
        "cleanup": {"container_id": ("new", is_id)},
        "close": {},
    },
    "checkpoints": {
        "save": {"container_id": ("a", is_id), "gpus": GPUS_GIVEN, "lost": LOST},
        **{key: {"container_id": ("new", is_id)} for key in ["has", "remove"]},
        **{key: {} for key in ["load", "close"]},
        "claim": {"owner": (DRIVER, lambda value: True)},
    },
    "records": {
        "save": {"container_id": ("s", is_id), "share": (Share((PART,)), lambda value: False), "gpus": LOST},
        "remove": {"container_id": ("new", is_id)},
        **{key: {} for key in ["load", "close"]},
        "claim": {"owner": (DRIVER, lambda value: True)},
    },
    "allocator": {
        "allocate": {"wanted": (1, lambda value: type(value) is int and value >= 0)},
        "deallocate": {"gpus": GPUS_GIVEN},
    },
    "functions": {
        "discover_gpus": {
            "gpus_asked": (1, either(int, None)),
            "devices": (["0"], either(None)),
            "isolating": FLAG,
            "found": (WHOLE, GPUS_GIVEN[1]),
        },
        "should_inject": {"image_env": ({}, either(dict)), "image_labels": ({}, either(dict))},
    },
}
NOT_CHECKED = {
    ("functions", "discover_gpus", "isolating"),
    ("checkpoints", "claim", "owner"),
    ("records", "claim", "owner"),
}
CALLS = [(one, call, name) for one, calls in ARGUMENTS.items() for call, names in calls.items() for name in names]


class Functions:
    discover_gpus = staticmethod(discover_gpus)
    should_inject = staticmethod(should_inject)


class Objects:
    """One object of each kind; container `a` has a GPU and container `s` a share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints, self.records = Checkpoints(folder / "1"), ShareRecords(folder / "2")
        self.isolator = NvidiaGpuIsolator(
            WHOLE, DRIVER, None, Checkpoints(folder / "gpus"), live_access=lambda _: pytest.fail("no such process")
        )
        self.sharing = SharingIsolator(self.isolator, [SHARED], [CARD], ShareRecords(folder / "shares"))
        self.allocator = NvidiaGpuAllocator(WHOLE)
        self.functions = Functions()
        self.isolator.prepare("a", 1)
        self.sharing.prepare("s", 0, share=Share((PART,)))

    def close(self) -> None:
        for one in (self.checkpoints, self.records, self.sharing):
            one.close()

    def state(self) -> object:
        files = {path: path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()}
        held = self.isolator.held, self.isolator.free, self.isolator.lent, self.isolator.withdrawn
        return files, held, self.sharing.shares, self.sharing.closed


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in memory, so that tests do not wait for the disk."""
    made = Path(tempfile.mkdtemp(prefix="mesos-gpu-calls-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def objects(folder: Path) -> Iterator[Objects]:
    made = Objects(folder)
    yield made
    made.close()


def test_every_public_function_and_every_argument_of_it_is_in_the_table(objects: Objects) -> None:
    for name, calls in ARGUMENTS.items():
        one = getattr(objects, name)
        public = {each for each, value in inspect.getmembers(type(one)) if inspect.isroutine(value) and each[0] != "_"}
        assert set(calls) == public
        for call, arguments in calls.items():
            assert set(arguments) == set(inspect.signature(getattr(one, call)).parameters)


@pytest.mark.parametrize(("kind", "call", "argument"), [one for one in CALLS if one not in NOT_CHECKED])
def test_an_invalid_argument_is_refused_and_changes_nothing(
    objects: Objects, kind: str, call: str, argument: str
) -> None:
    names = ARGUMENTS[kind][call]
    can_be = names[argument][1]
    function = getattr(getattr(objects, kind), call)

    @settings(max_examples=examples(15))
    @given(ANYTHING.filter(lambda value: not can_be(value)))
    @example(object())
    def refused(value: object) -> None:
        before = objects.state()
        with pytest.raises(MesosGpuError) as refusal:
            function(**{name: value if name == argument else good for name, (good, _) in names.items()})
        assert isinstance(refusal.value, BadInput) or call == "minor"
        assert objects.state() == before

    refused()


def test_an_invalid_image_manifest_is_refused(objects: Objects) -> None:
    before = objects.state()
    with pytest.raises(BadInput):
        should_inject(ImageManifest(5).environment, {})  # type: ignore[arg-type]
    assert objects.state() == before


@pytest.mark.parametrize("value", [5, None, "a\0b"])
def test_an_invalid_folder_is_refused(value: Any) -> None:
    for kind in (Checkpoints, ShareRecords):
        with pytest.raises(BadInput):
            kind(value)


STEP = st.tuples(
    st.sampled_from(["prepare", "share", "update", "cleanup", "reshare", "look"]),
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 4),
)


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def step(objects: Objects, what: str, name: str, number: int) -> None:
    match what:
        case "prepare":
            objects.isolator.prepare(name, number)
        case "share":
            objects.sharing.prepare(name, 0, share=Share((CardPart(SHARED.index, 3 * number, 1),)))
        case "update":
            objects.sharing.update(name, number)
        case "reshare":
            objects.sharing.reshare(name, [CardPart(SHARED.index, 3 * number, 1)])
        case "cleanup":
            objects.sharing.cleanup(name)
        case _:
            held = objects.isolator.held
            assert len({gpu for gpus in held.values() for gpu in gpus}) == sum(map(len, held.values()))


@pytest.mark.slow
@pytest.mark.usefixtures("eager_threads")
def test_threads_hold_no_gpu_twice_and_leave_readable_records(folder: Path) -> None:
    @settings(max_examples=examples(150))
    @given(st.lists(st.lists(STEP, min_size=1, max_size=5), min_size=2, max_size=6))
    def race(threads: list[list[tuple[str, str, int]]]) -> None:
        here = Path(tempfile.mkdtemp(dir=folder))
        objects = Objects(here)
        strange: list[BaseException] = []
        begin = threading.Barrier(len(threads))

        def run(steps: list[tuple[str, str, int]]) -> None:
            begin.wait()
            for one in steps:
                try:
                    step(objects, *one)
                except MesosGpuError:
                    pass
                except BaseException as error:
                    strange.append(error)

        started = [threading.Thread(target=run, args=(steps,)) for steps in threads]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        assert strange == []
        held, shares, free = objects.isolator.held, objects.sharing.shares, objects.isolator.free
        assert sum(map(len, held.values())) + len(free) == len(WHOLE)
        assert len({gpu for gpus in held.values() for gpu in gpus}) + len(free) == len(WHOLE)
        assert sum(part.mem_units for share in shares.values() for part in share.parts) <= CARD.mem_units
        objects.close()
        whole = NvidiaGpuIsolator(WHOLE, DRIVER, None, Checkpoints(here / "gpus"))
        with SharingIsolator(whole, [SHARED], [CARD], ShareRecords(here / "shares")) as again:
            again.recover(held.keys())
            assert (whole.held, again.shares) == (held, shares)

    race()


@pytest.mark.usefixtures("eager_threads")
def test_threads_of_an_allocator_hold_no_gpu_twice() -> None:
    def slowly(gpus: Collection[Gpu], count: int) -> frozenset[Gpu]:
        time.sleep(0)  # let another thread run
        return frozenset(sorted(gpus)[:count])

    allocator, held, wrong = NvidiaGpuAllocator(WHOLE, choice=slowly), set[Gpu](), list[object]()

    def take_and_give_back() -> None:
        for _ in range(examples(300)):
            try:
                gpus = allocator.allocate(1)
            except NotEnoughGpus:
                continue
            except MesosGpuError as error:
                wrong.append(error)
                continue
            wrong.extend(held & gpus)
            held.update(gpus)
            held.difference_update(gpus)
            allocator.deallocate(gpus)

    threads = [threading.Thread(target=take_and_give_back) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert allocator.allocate(len(WHOLE)) == set(WHOLE)
