"""What happens to the master's books: subscriptions, launches, updates, agents, operations. Pure."""
