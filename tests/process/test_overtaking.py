"""What a process sent that was killed comes after what the next one at its address has said."""

from __future__ import annotations

import asyncio

from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.process.connections import Overtaking
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app

AGENT, OTHER = Pid("slave(1)", "10.0.0.1", 5051), Pid("slave(1)", "10.0.0.2", 5051)


def said(connection: int, sender: Pid = AGENT) -> Message:
    return Message(sender, "master", "mesos.internal.ReregisterSlaveMessage", b"", connection)


def test_what_comes_over_an_older_connection_is_late_while_the_newer_one_is_open() -> None:
    open_ = {1, 2, 3}
    overtaking = Overtaking(open_.__contains__)
    assert not overtaking.is_late(said(1))
    assert not overtaking.is_late(said(2))
    assert not overtaking.is_late(said(2)), "the newest goes on"
    assert overtaking.is_late(said(1))
    assert not overtaking.is_late(said(1, OTHER)), "another's is its own affair"
    assert not overtaking.is_late(said(0)), "what this very program says"
    assert overtaking.is_late(said(1)), "and that changes nothing"
    open_.remove(2)
    assert not overtaking.is_late(said(1)), "who has lost it will say everything again"
    assert not overtaking.is_late(said(3))
    assert overtaking.is_late(said(1))


def test_what_is_said_again_anyway_is_older_although_the_newer_one_is_closed() -> None:
    overtaking = Overtaking(lambda connection: False)
    assert not overtaking.is_older(said(2))
    assert not overtaking.is_older(said(2))
    assert overtaking.is_older(said(1))
    assert not overtaking.is_older(said(1, OTHER))
    assert not overtaking.is_older(said(0))
    assert not overtaking.is_older(said(3))
    assert overtaking.is_older(said(2))


async def test_messages_say_which_connection_they_came_over() -> None:
    got: asyncio.Queue[Message] = asyncio.Queue()
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(make_app())
    endpoint.spawn("master", got.put_nowait)
    try:
        streams = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(2)]
        numbers = []
        for _, writer in (*streams, streams[0]):
            writer.write(libprocess.encode(AGENT, endpoint.pid("master"), "mesos.internal.X", b"x"))
            numbers.append((await asyncio.wait_for(got.get(), 20)).connection)
        assert 0 < numbers[0] < numbers[1]
        assert numbers[2] == numbers[0]
        assert all(endpoint.is_open(number) for number in numbers)
        streams[1][1].close()
        await streams[1][0].read()
        for _ in range(2000):
            if not endpoint.is_open(numbers[1]):
                break
            await asyncio.sleep(0.01)
        assert [endpoint.is_open(number) for number in numbers] == [True, False, True]
        streams[0][1].close()
    finally:
        await endpoint.stop()
