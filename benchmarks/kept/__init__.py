"""What is kept of measurements: figures, where they were taken, the page of them, and which ratios have moved."""

from benchmarks.kept.figures import Figure, figure

__all__ = ["Figure", "figure"]
