"""Measure what proxies cost on this machine, in milliseconds per network.

The number of forward passes says how much is computed, not how long it takes: many small kernels,
eigenvalues on the CPU or loops over samples are not counted. So each proxy is timed alone, on one
network with its own number of samples, as a search times it. The times are cached per machine,
number of threads and version of torch.
"""

import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import torch

from untrained.config import DEFAULT_DATA
from untrained.data_root import find_cache_root
from untrained.files import write_atomically
from untrained.formatting import format_count
from untrained.progress import Progress, ProgressCallback
from untrained.proxies import Proxy
from untrained.readers.json_file import parse_json
from untrained.spaces import load_space
from untrained.types import Arch
from untrained.version import __version__
from untrained.workflows.score import score_networks

# The network that is measured: one of the default space.
SPACE = "nasbench201"
ARCH_SEED = 0
# Number of measurements. The fastest one is used, because other programs can only slow one down.
REPEATS = 3
FOLDER = "proxy-costs"


def describe_measurement() -> str:
    """Describe how the times were measured."""
    threads = format_count(torch.get_num_threads(), "thread")
    return (
        f"Times are milliseconds for one network of {SPACE} on {DEFAULT_DATA}, on this CPU with "
        f"{threads} and torch {torch.__version__}: the fastest of {REPEATS}, without "
        "building the network. In a search, proxies share passes."
    )


def measure_proxy_costs(
    proxies: Sequence[Proxy], on_progress: ProgressCallback | None = None
) -> dict[str, float | None]:
    """Return the milliseconds of each proxy by name; None if it cannot score the network.

    Aggregates are left out: their parts share passes, and each part has its own time.

    Args:
        proxies: The proxies.
        on_progress: Called before each proxy that has to be measured.
    """
    path = _find_cache_file()
    cache = _read_cache(path)
    single_proxies = [proxy for proxy in proxies if not proxy.parts]
    missing = [proxy for proxy in single_proxies if proxy.measure not in cache]
    if missing:
        arch = load_space(SPACE).sample(seed=ARCH_SEED)
        # Without this, the time of the first proxy would include loading data and kernels.
        _measure_seconds(missing[0], arch)
    for done, proxy in enumerate(missing):
        if on_progress is not None:
            on_progress(Progress("measuring proxies", done, len(missing)))
        cache[proxy.measure] = _measure_seconds(proxy, arch)
    if missing:
        _write_cache(path, cache)
    costs: dict[str, float | None] = {}
    for proxy in single_proxies:
        seconds = cache[proxy.measure]
        costs[proxy.name] = None if seconds is None else 1000 * seconds
    return costs


def _measure_seconds(proxy: Proxy, arch: Arch) -> float | None:
    """Return the shortest time of a proxy; None if the network has no score."""
    seconds = []
    for _ in range(REPEATS):
        (record,) = score_networks(arch, proxy, DEFAULT_DATA, space=SPACE)
        if record.value is None:
            return None
        seconds.append(record.measure_seconds)
    return min(seconds)


def _find_cache_file() -> Path:
    """Return the file of the times that are valid on this machine now."""
    facts = (
        platform.node(),
        platform.processor(),
        platform.machine(),
        os.cpu_count(),
        torch.get_num_threads(),
        torch.__version__,
        __version__,
    )
    digest = sha256(repr(facts).encode()).hexdigest()[:16]
    return find_cache_root() / FOLDER / f"{digest}.json"


def _read_cache(path: Path) -> dict[str, float | None]:
    """Read times in seconds by measure; a damaged file counts as empty."""
    try:
        entries = parse_json(path.read_text(encoding="utf-8"))
        times: dict[str, float | None] = {}
        for measure, seconds in entries.items():
            times[str(measure)] = None if seconds is None else float(seconds)
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return times


def _write_cache(path: Path, times: dict[str, float | None]) -> None:
    # Without a cache, the next call measures again.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(times, indent=1) + "\n")
