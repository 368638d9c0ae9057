"""The public functions: search, score, rank, bench, calibrate, train, export, report."""
