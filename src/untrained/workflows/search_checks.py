"""What a search was asked for, read and found possible: which strategy, who judges, who has the last word.

Every combination that cannot work is refused here, in one line, before anything is made or written.
"""

from dataclasses import dataclass

import torch

from untrained.config import DEFAULT_PROXY, SearchConfig
from untrained.engine.failures import catch_failure
from untrained.errors import UsageError
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.seeds import make_generator
from untrained.spaces import Space
from untrained.strategies.budget import Budget
from untrained.strategies.parsing import StrategySpec
from untrained.strategies.screening import Screening
from untrained.types import Failure, Task
from untrained.workflows.scoring_plan import ScoringPlan
from untrained.workflows.validation import FORMS, Validation


@dataclass(frozen=True)
class Asked:
    """The strategy, and everybody who judges what it finds."""

    strategy: StrategySpec
    panel: ScoringPlan

    @staticmethod
    def of(
        config: SearchConfig,
        proxy: str | Proxy,
        enough: Budget,
    ) -> "Asked":
        chosen = StrategySpec.parse(config.strategy)
        _matching(chosen, config.beside, config.screen, config.validate)
        judge = _judge(chosen, proxy)
        validation = None
        if config.validate:
            validation = Validation.parse(config.validate, config.space, config.data_root)
        sieve = Screening.parse(config.screen, config.keep, enough) if config.screen else None
        panel = ScoringPlan.of(judge, config.beside, sieve, validation, chosen.pool_metrics)
        _comparable(chosen, panel, enough)
        return Asked(chosen, panel)


def _matching(chosen: StrategySpec, beside: str, screen: str, validate: str) -> None:
    """What a strategy needs and what was given."""
    if chosen.needs_validation and not validate:
        raise UsageError(
            f"{chosen.name} needs an expensive validator for a few candidates; add {FORMS}"
        )
    if validate and not chosen.needs_validation:
        raise UsageError(
            f"--validate is for the strategies hnas and best_of_pool; {chosen.name} goes by the proxy alone"
        )
    if chosen.needs_objectives and not beside:
        raise UsageError(
            f"{chosen.name} weighs several objectives; name one or two more, such as --beside params"
        )
    if screen and (chosen.learns or chosen.needs_validation):
        raise UsageError(
            f"--screen ranks a pool that nobody learns from; take --strategy random, not {chosen.name}"
        )


def _judge(chosen: StrategySpec, proxy: str | Proxy) -> str | Proxy:
    """The proxy of the search, or that of a strategy which brings its own."""
    if not chosen.pool_metrics:
        return proxy
    own = chosen.pool_metrics[0]
    if load_proxy(proxy).label not in (DEFAULT_PROXY, own):
        raise UsageError(
            f"{chosen.name} judges its pool by {own}; leave out --proxy, or say {chosen.name}(metric=...)"
        )
    return own


def _comparable(chosen: StrategySpec, panel: ScoringPlan, enough: Budget) -> None:
    """Who compares all candidates cannot score one alone."""
    judge, sieve = panel.judge, panel.sieve
    weighed = (judge, *panel.beside) if chosen.needs_objectives else (judge,)
    aggregate = next((proxy for proxy in weighed if proxy.parts), None)
    if aggregate and chosen.learns:
        raise UsageError(
            f"{aggregate.name} compares all candidates, and {chosen.name} needs a score of each alone; "
            "take --strategy random, or another proxy"
        )
    if chosen.needs_objectives:
        _different_objectives(chosen, panel)
    if judge.parts and enough.stable:
        raise UsageError(
            f"{judge.name} compares all candidates, so its ranking never settles; give a --budget"
        )
    if sieve and judge in sieve.proxies:
        raise UsageError(
            f"{judge.label} cannot screen for itself; screen by something cheaper, such as params"
        )


def _different_objectives(chosen: StrategySpec, panel: ScoringPlan) -> None:
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
            network = space.build(space.sample(make_generator("matching", space.name)), task)
            outputs: torch.Tensor = network.eval()(torch.zeros(2, *task.input_shape))
            return outputs

    if isinstance(why := catch_failure(answer), Failure):
        raise UsageError(
            f"{task.dataset} has rows of {task.input_shape[0]} columns, and networks of {space.name} do not take them "
            f"({why.detail}); for a table add --space nasrec_small --proxy sigeo"
        )
