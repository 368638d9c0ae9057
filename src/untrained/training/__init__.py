"""Training: the one room where weights change."""
