"""How many examples Hypothesis tries: each test says how many are usual, the profile how many of them."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""Examples of a test that does not say how many, in the profile `ci`."""
PROFILES = {"fast": 0.1, "ci": 1.0, "deep": 20.0}
"""How many times the usual number of examples each profile tries."""


def register_profiles() -> None:
    """Make the profiles known to Hypothesis. No example has a deadline: a busy machine is no fault of the code."""
    for name, times in PROFILES.items():
        # `./run test fast` gives the same result each time.
        settings.register_profile(
            name, deadline=None, max_examples=round(times * USUAL), print_blob=True, derandomize=name == "fast"
        )


def examples(usual: int) -> int:
    """Return how many examples a test tries in the profile that is loaded, if it usually tries `usual`."""
    return max(1, usual * settings().max_examples // USUAL)
