"""How a history went under each policy, drawn by matplotlib as SVG. The same figures give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mesos_gpu.errors import BadInput

if TYPE_CHECKING:
    from mesos_gpu.replay.history import Figures

_HOUR_S = 3600
_SIZE_INCHES = (9.0, 10.0)
_PLAIN: Any = {
    "svg.hashsalt": "mesos-gpu",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
"""Ids of the drawing are made of this salt and not of chance; letters stay text, so no fonts are drawn."""


def svg(found: Sequence[Figures], gpus: int) -> bytes:
    """Return three plots below each other: GPUs in use (of `gpus`), jobs that wait, and how long jobs waited.

    Raises BadInput where matplotlib is not there.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput("plots are drawn by matplotlib, which is not here: pip install 'mesos-gpu[plots]'") from None
    with rc_context(_PLAIN):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        used, waiting, waited = figure.subplots(3)
        for each in found:
            hours = [at_s / _HOUR_S for at_s, _, _ in each.course]
            held = [100 * held / gpus if gpus else 0.0 for _, held, _ in each.course]
            used.step(hours, held, where="post", label=each.policy)
            waiting.step(hours, [count for _, _, count in each.course], where="post", label=each.policy)
            parts = [100 * place / max(1, len(each.waits_s)) for place in range(1, len(each.waits_s) + 1)]
            waited.step([s / _HOUR_S for s in each.waits_s], parts, where="post", label=each.policy)
        used.set(xlabel="hours", ylabel="GPUs in use, %", ylim=(0, 105))
        waiting.set(xlabel="hours", ylabel="jobs that wait", ylim=(0, None))
        waited.set(xlabel="hours waited, at most", ylabel="jobs, %", ylim=(0, 105))
        for axes in (used, waiting, waited):
            axes.legend(loc="best")
        drawn = BytesIO()
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(drawn, metadata={"Date": None, "Creator": "mesos-gpu replay"})
    return drawn.getvalue()
