"""The agent among others: its link to the master, its registration there, what it holds for frameworks."""
