"""Marathon on pymesos."""
