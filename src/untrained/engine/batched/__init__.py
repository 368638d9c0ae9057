"""Many networks in one pass (`--networks-per-batch`). Ordinary scoring does not pass through it."""
