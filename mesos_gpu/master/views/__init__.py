"""The master's state as its endpoints show it. Pure."""
