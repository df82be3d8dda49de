"""Changes: what a Marathon accepts, how a deployment is waited for, reported and rolled back."""
