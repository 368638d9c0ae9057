"""How many worker processes this machine can run."""

import os

from untrained.errors import UsageError
from untrained.formatting import format_count

RAY_LOCAL = "local"  # `--ray local` starts a cluster on this machine

# More workers would only wait for each other, and each needs memory for its own copy of torch.
MAX_WORKERS_PER_CORE = 4

# Up to this many workers are allowed on every machine, so that a command that was written for a
# larger machine also runs on a small one.
ALWAYS_ALLOWED_WORKERS = 8


def check_workers(workers: int | None, ray: str | None = None) -> None:
    """Refuse an invalid number of workers.

    Args:
        workers: Number of workers; None for the default.
        ray: "local", or the address of a Ray cluster. A cluster may have more cores than this
            machine, so only the lower limit is checked here.

    Raises:
        UsageError: The number is less than 1, or far more than this machine has cores.
    """
    if workers is None:
        return
    cores = count_cores()
    if type(workers) is not int or workers < 1:
        raise UsageError(
            f"--workers must be a whole number of at least 1, not {workers!r}; "
            f"this machine has {format_count(cores, 'core')}: --workers {cores}"
        )
    is_on_this_machine = ray is None or ray == RAY_LOCAL
    max_workers = max(ALWAYS_ALLOWED_WORKERS, MAX_WORKERS_PER_CORE * cores)
    if is_on_this_machine and workers > max_workers:
        raise UsageError(
            f"--workers {workers} is too many for this machine, which has "
            f"{format_count(cores, 'core')}: type --workers {cores}, or at most {max_workers}"
        )


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
