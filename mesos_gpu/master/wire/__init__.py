"""Messages of agents and scheduler drivers, read into events and made of actions. Pure; the links carry them."""
