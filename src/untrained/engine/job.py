"""What workers do, put into names where everything has one, so that other processes can do it too."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from untrained._load import absolute
from untrained.engine.evaluate import Samples
from untrained.engine.measure import Examiner, Job, Start
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import Space, load_space


def job_for(
    space: str | Space,
    proxies: Sequence[Proxy],
    samples: Samples,
    device: str,
    typed: Mapping[str, str] | None = None,
    start: Start | None = None,
    population: int = 1,
) -> Job | Examiner:
    """A `Job` where the space and all proxies can be found by name, and else an `Examiner` that works here. `typed`
    holds, by measure, the names under which the user's own proxies were loaded; `start` gives networks other weights
    than fresh ones."""
    if population < 1:
        raise UsageError(f"a population of {population} networks is none; 1 looks at them one by one")
    task, batches = samples.source.task, samples.largest()
    home = _name(space, load_space)
    names = [_name((typed or {}).get(proxy.measure, proxy), load_proxy) for proxy in proxies]
    if home and all(names):
        known = tuple(name for name in names if name)
        measures = tuple(proxy.measure for proxy in proxies)
        return Job(home, known, task, batches, device, start, population, measures=measures)
    built = load_space(space)
    warm = start.open(lambda: built.supernet(task, device), device) if start else None
    build, count = partial(built.build, task=task, device=device), partial(built.counts, task=task)
    return Examiner(build, proxies, task.loss, batches, device, warm, population, counts=count)


def _name(what: "str | Space | Proxy", load: Callable[[Any], object]) -> str | None:
    """What to type for this in another process; None for an object that no name leads to."""
    if isinstance(what, str):
        return absolute(what)
    name = what.label if isinstance(what, Proxy) else what.name
    try:
        return name if load(name) == what else None
    except UsageError:
        return None
