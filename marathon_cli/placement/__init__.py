"""Where an app could run, and what keeps it from running: wishes held against agents. Pure."""
