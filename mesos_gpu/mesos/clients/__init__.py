"""What clients of masters and agents read and write: agents as they are shown, what a terminal sends. Pure."""
