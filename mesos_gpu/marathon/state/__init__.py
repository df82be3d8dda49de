"""The state that decisions are made from, and the events and actions they are made of. Pure."""
