"""What a command is given: the console to answer on, and the servers that it is about."""
