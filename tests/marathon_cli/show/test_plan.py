"""A plan as a table."""

from __future__ import annotations

from marathon_cli.show.plan import cards_text, plan_table
from tests.support.golden import Golden


def test_cards_are_told_with_their_links(golden: Golden) -> None:
    start = {"app": "/a", "instances": 2, "host": "h0", "each": {"gpus": 2}}
    pairs = [{"indices": [0, 1], "nvlink": True}, {"indices": [4, 6], "nvlink": False}]
    (row,) = plan_table({"starts": [{**start, "cards": pairs}]}).rows
    assert row[-1] == golden
    assert cards_text([{"indices": [3], "nvlink": None}]) == " (GPU 3)"
    assert cards_text([]) == ""
