"""The interfaces of Linux that Python's standard library does not have. Imports the standard library only."""
