"""One container sees only its GPUs."""
