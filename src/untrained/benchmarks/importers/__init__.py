"""One file a format: each reads a path into `Rows`, or answers None where the path is something else."""
