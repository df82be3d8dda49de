"""Docker's own arguments, made of a lease."""
