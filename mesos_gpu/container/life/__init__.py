"""A container's life: launched, changed, killed, released; how it is sandboxed and bound."""
