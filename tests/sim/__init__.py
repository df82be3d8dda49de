"""A whole cluster in one process, under virtual time: docs say it in Why, `python -m tests.sim --help` runs it."""
