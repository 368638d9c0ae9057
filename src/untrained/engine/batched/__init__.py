"""Score many networks in one pass (`--networks-per-batch`). Ordinary scoring does not use this."""
