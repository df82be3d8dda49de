"""The owner of the master's books: events in, actions carried out in order, the registry written beside."""
