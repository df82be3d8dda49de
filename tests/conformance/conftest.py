"""What cases of images run on: a box that pulls from a registry of the test's own."""

from __future__ import annotations

from tests.support.box.images import images_box, pulling, standing_registry

__all__ = ["images_box", "pulling", "standing_registry"]
