"""Operators who listen: each is told what there is, and then what changes, as far as it may see that."""

from __future__ import annotations

from mesos_gpu.master.engine.edges import Subscriber
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views import operator_events
from mesos_gpu.mesos.security.viewing import Viewer


class Watchers:
    """Their streams, the oldest first."""

    def __init__(self, state: MasterState) -> None:
        self._state = state
        self._streams: dict[str, tuple[Subscriber, Viewer]] = {}

    def __len__(self) -> int:
        """Return how many listen."""
        return len(self._streams)

    def add(self, stream_id: str, stream: Subscriber, viewer: Viewer) -> None:
        """Tell an operator all there is, and from now on what changes; of too many the oldest gives way."""
        while len(self._streams) >= self._state.settings.max_watchers:
            oldest, _ = self._streams.pop(next(iter(self._streams)))
            oldest.close()
        self._streams[stream_id] = stream, viewer
        self._state.watched = True
        for event in operator_events.subscribed(self._state, viewer):
            stream.send(event)

    def remove(self, stream_id: str) -> None:
        """Tell it nothing more: its stream has ended."""
        self._streams.pop(stream_id, None)
        self._state.watched = bool(self._streams)

    def publish(self) -> None:
        """Tell all of them what has changed since the last time."""
        for event in operator_events.take(self._state):
            for stream, viewer in list(self._streams.values()):
                shown = operator_events.seen(self._state, event, viewer)
                if shown is not None:
                    stream.send(shown)
