"""The master's books, the actions it answers with, and what agents report. Pure."""
