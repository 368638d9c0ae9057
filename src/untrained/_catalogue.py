"""What there is, as rows: the facts that `untrained list` shows and the generated docs are made of."""

from collections.abc import Callable
from typing import Any

Rows = list[dict[str, Any]]


def spaces() -> Rows:
    from untrained.spaces import SPACES

    return [
        {"name": s.name, "size": s.size, "input": list(s.task.input_shape), "about": s.about} for s in SPACES.values()
    ]


def proxies() -> Rows:
    from untrained.proxies import PROXIES

    return [
        {
            "name": p.name,
            "measures": p.measures,
            "better": "higher" if p.higher_is_better else "lower",
            "needs": list(p.needs),
            "samples": p.samples,
            "paper": p.paper,
            "about": p.about,
        }
        for p in PROXIES.values()
    ]


def strategies() -> Rows:
    from untrained.strategies import STRATEGIES

    return [{"name": name, "about": (made.__doc__ or "").partition("\n")[0]} for name, made in STRATEGIES.items()]


def datasets() -> Rows:
    from untrained.data import SOURCES

    return [{"name": name, "about": kind.about} for name, kind in SOURCES.items()]


CATALOGUE: dict[str, Callable[[], Rows]] = {
    "spaces": spaces,
    "proxies": proxies,
    "strategies": strategies,
    "datasets": datasets,
}
