"""From a TaskInfo or ExecutorInfo to the container that is launched for it. Pure."""
