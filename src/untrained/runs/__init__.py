"""What a run folder holds once its records are there: their ranking and the winner."""
