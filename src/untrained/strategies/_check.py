"""What a search was asked for, read and found possible: which strategy, who judges, who has the last word.

Every combination that cannot work is refused here, in one line, before anything is made or written.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from untrained.engine.faults import attempt
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.rng import generator
from untrained.spaces import Space
from untrained.strategies._make import Chosen
from untrained.strategies._panel import Panel
from untrained.strategies._validate import FORMS, Validation
from untrained.strategies.budget import Budget
from untrained.strategies.sieve import Sieve
from untrained.types import Failure, Task

USUAL_PROXY = "dextr"


@dataclass(frozen=True)
class Asked:
    """The strategy, and everybody who judges what it finds."""

    strategy: Chosen
    panel: Panel

    @staticmethod
    def of(
        strategy: str,
        proxy: str | Proxy,
        beside: str,
        screen: str,
        keep: str,
        validate: str,
        enough: Budget,
        space: str,
        root: str | Path | None,
    ) -> "Asked":
        chosen = Chosen.parse(strategy)
        _matching(chosen, beside, screen, validate)
        judge = _judge(chosen, proxy)
        validation = Validation.parse(validate, space, root) if validate else None
        sieve = Sieve.parse(screen, keep, enough) if screen else None
        panel = Panel.of(judge, beside, sieve, validation, chosen.metrics)
        _comparable(chosen, panel, enough)
        return Asked(chosen, panel)


def _matching(chosen: Chosen, beside: str, screen: str, validate: str) -> None:
    """What a strategy needs and what was given."""
    if chosen.needs("judge") and not validate:
        raise UsageError(f"{chosen.name} asks something dearer than a proxy about a few; add {FORMS}")
    if validate and not chosen.needs("judge"):
        raise UsageError(f"--validate is for the strategies hnas and screen; {chosen.name} goes by the proxy alone")
    if chosen.needs("beside") and not beside:
        raise UsageError(f"{chosen.name} weighs several objectives; name one or two more, such as --beside params")
    if screen and (chosen.learns or chosen.needs("judge")):
        raise UsageError(f"--screen ranks a pool that nobody learns from; take --strategy random, not {chosen.name}")


def _judge(chosen: Chosen, proxy: str | Proxy) -> str | Proxy:
    """The proxy of the search, or that of a strategy which brings its own."""
    if not chosen.metrics:
        return proxy
    own = chosen.metrics[0]
    if load_proxy(proxy).label not in (USUAL_PROXY, own):
        raise UsageError(f"{chosen.name} judges its pool by {own}; leave out --proxy, or say {chosen.name}(metric=...)")
    return own


def _comparable(chosen: Chosen, panel: Panel, enough: Budget) -> None:
    """Who compares all candidates cannot score one alone."""
    judge, sieve = panel.judge, panel.sieve
    weighed = (judge, *panel.beside) if chosen.needs("beside") else (judge,)
    aggregate = next((proxy for proxy in weighed if proxy.parts), None)
    if aggregate and chosen.learns:
        raise UsageError(
            f"{aggregate.name} compares all candidates, and {chosen.name} needs a score of each alone; "
            "take --strategy random, or another proxy"
        )
    if chosen.needs("beside"):
        _different_objectives(chosen, panel)
    if judge.parts and enough.stable:
        raise UsageError(f"{judge.name} compares all candidates, so its ranking never settles; give a --budget")
    if sieve and judge in sieve.proxies:
        raise UsageError(f"{judge.label} cannot screen for itself; screen by something cheaper, such as params")


def _different_objectives(chosen: Chosen, panel: Panel) -> None:
    """Refuse a proxy that is to be weighed against itself."""
    seen = {panel.judge.measure}
    for other in panel.beside:
        if other.measure in seen:
            raise UsageError(
                f"{chosen.name} weighs different objectives, and {other.label} is named twice; "
                f"take another --beside, such as {'flops' if other.name == 'params' else 'params'}"
            )
        seen.add(other.measure)


def matching_data(space: Space, task: Task) -> None:
    """Refuse a table for networks that take images. A network is asked, since some take anything."""
    if len(task.input_shape) == len(space.task.input_shape):
        return

    def answer() -> torch.Tensor:
        with random_state(0), torch.no_grad():
            network = space.build(space.sample(generator("matching", space.name)), task)
            outputs: torch.Tensor = network.eval()(torch.zeros(2, *task.input_shape))
            return outputs

    if isinstance(why := attempt(answer), Failure):
        raise UsageError(
            f"{task.dataset} has rows of {task.input_shape[0]} columns, and networks of {space.name} do not take them "
            f"({why.detail}); for a table add --space nasrec_small --proxy sigeo"
        )
