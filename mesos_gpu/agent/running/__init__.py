"""What runs: containers, checks, images, networks, nested sandboxes."""
