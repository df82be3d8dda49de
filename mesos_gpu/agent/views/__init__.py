"""The agent's state as its endpoints show it."""
