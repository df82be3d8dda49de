"""What follows from what happens: books, an event and the time in, actions out (`handle.py`). Pure."""
