from tests.images.registry import registry, shared_registry

__all__ = ["registry", "shared_registry"]
