"""Reports: one self-contained HTML page per run."""
