"""What can happen to a master, as values. Pure; what follows from each is decided in the room `decisions`."""
