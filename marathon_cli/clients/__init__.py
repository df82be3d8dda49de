"""Clients of Marathon, master and agents."""
