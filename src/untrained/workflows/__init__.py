"""What the public functions do: search, score, bench, calibrate, confirm, train, export, report."""
