from __future__ import annotations

import base64
import uuid

from mesos_gpu.master.model.ids import Ids
from tests.support.master.build import MASTER_ID


def test_ids_begin_with_the_masters_and_count_each_kind_by_itself() -> None:
    ids = Ids(MASTER_ID)
    given = [ids.framework(), ids.agent(), ids.offer(), ids.framework(), ids.offer()]
    assert [one.removeprefix(MASTER_ID) for one in given] == ["-0000", "-S0", "-O0", "-0001", "-O1"]


def test_operations_have_uuids_that_the_next_start_of_a_master_does_not_give_again() -> None:
    ids, again, later = Ids(MASTER_ID), Ids(MASTER_ID), Ids(str(uuid.UUID(int=7)))
    given = [ids.operation() for _ in range(3)]
    assert {len(base64.b64decode(one)) for one in given} == {16}
    assert [again.operation() for _ in range(3)] == given
    assert not {later.operation() for _ in range(3)} & set(given)
    assert len(set(given)) == 3
