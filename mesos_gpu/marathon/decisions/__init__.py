"""What is decided: an event and the state in, actions and the next state out. Pure."""
