"""The master's side of its agents: libprocess messages, pings, absences, authentication."""
