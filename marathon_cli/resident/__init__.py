"""A process of the same user that has read the program already, and forks for each command that is short."""
