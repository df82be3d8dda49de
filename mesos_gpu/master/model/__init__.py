"""Frameworks, agents, tasks, offers: the values that the master decides with. Pure."""
