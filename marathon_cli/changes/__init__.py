"""Changes: sent, waited for, led back, told."""
