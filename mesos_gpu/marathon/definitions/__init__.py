"""What people write: apps, pods and jobs, their forms, defaults and rules. Pure."""
