"""Changes: sent, waited for, rolled back, told."""
