"""Reports: one self-contained HTML page per run, made from finished facts."""
