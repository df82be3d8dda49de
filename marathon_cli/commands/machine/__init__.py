"""`up`, `down`, `status`, `doctor`, `completion`."""
