"""What would happen, and when: decisions played on a copy of the state, of what agents have, and of time. Pure."""
