"""What is kept of /slaves; the histories hold it to what a fresh look says (decisions/test_histories.py)."""

from __future__ import annotations

from mesos_gpu.master.views.agent_pages import AT_ONCE, AgentPages
from mesos_gpu.master.views.views import slaves_view
from mesos_gpu.process.http import to_json
from tests.support.master.build import add_agent, new_state


def test_a_large_cluster_is_written_in_lots_and_others_may_change_it_in_between() -> None:
    state, pages = new_state(), AgentPages()
    agents = [add_agent(state, port=5051 + number) for number in range(2 * AT_ONCE + 1)]
    lots = 0
    for _ in pages.refresh(state):
        lots += 1
        agents[0].deactivated = lots % 2 == 1
        state.agents.pop(agents[-lots].id)
    assert lots == 2
    assert pages.page(state) == to_json(slaves_view(state, None))


def test_what_it_says_of_an_agent_that_is_as_it_was_is_not_written_again() -> None:
    state, pages = new_state(), AgentPages()
    agents = [add_agent(state, port=5051 + number) for number in range(AT_ONCE)]
    assert len(list(pages.refresh(state))) == 1
    assert not list(pages.refresh(state))
    agents[0].deactivated = True
    assert not list(pages.refresh(state))
    assert pages.page(state) == to_json(slaves_view(state, None))
