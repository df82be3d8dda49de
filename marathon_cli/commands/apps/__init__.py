"""`app`, `group`, `pod`, `deployment`, `run`, `convert`."""
