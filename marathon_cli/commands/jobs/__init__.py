"""`job` and its schedules."""
