"""What every other package builds on: files that must last, and the interfaces of Linux that Python does not have."""
