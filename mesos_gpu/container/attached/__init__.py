"""Who is attached to a container: switchboard, terminals, sessions."""
