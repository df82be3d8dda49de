"""What the agent decides: an event and its books in, actions out. Pure."""
