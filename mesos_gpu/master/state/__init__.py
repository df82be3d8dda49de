"""The master's books, and the actions it answers with. Pure."""
