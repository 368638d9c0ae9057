"""Refuse searches that cannot work, with one line, before anything is made or written."""

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
from untrained.types import Failure, Task
from untrained.workflows.scoring_plan import ScoringPlan
from untrained.workflows.validation import EXAMPLES


def check_strategy(strategy: StrategySpec, config: SearchConfig) -> None:
    """Check that a strategy has the options that it needs, and none that it cannot use.

    Args:
        strategy: The strategy.
        config: The search: `--validate`, `--beside` and `--screen`.

    Raises:
        UsageError: An option is missing or does not suit the strategy.
    """
    name = strategy.name
    if strategy.needs_validation and not config.validate:
        raise UsageError(
            f"{name} needs an expensive validator for a few candidates; add {EXAMPLES}"
        )
    if config.validate and not strategy.needs_validation:
        raise UsageError(
            f"--validate is for the strategies hnas and best_of_pool; {name} goes by the proxy alone"
        )
    if strategy.needs_objectives and not config.beside:
        raise UsageError(
            f"{name} weighs several objectives; name one or two more, such as --beside params"
        )
    if config.screen and (strategy.learns or strategy.needs_validation):
        raise UsageError(
            f"--screen is for strategies that do not use scores; take --strategy random, not {name}"
        )


def choose_proxy(strategy: StrategySpec, proxy: str | Proxy) -> str | Proxy:
    """Return the proxy of a search: the user's, or that of a strategy which has its own.

    Args:
        strategy: The strategy.
        proxy: What the user asks for.

    Raises:
        UsageError: The user asks for another proxy than the strategy uses.
    """
    if not strategy.pool_metrics:
        return proxy
    own_proxy = strategy.pool_metrics[0]
    if load_proxy(proxy).label not in (DEFAULT_PROXY, own_proxy):
        name = strategy.name
        raise UsageError(
            f"{name} ranks its pool by {own_proxy}; leave out --proxy, or type {name}(metric=...)"
        )
    return own_proxy


def check_plan(strategy: StrategySpec, plan: ScoringPlan, budget: Budget) -> None:
    """Check that the proxies suit the strategy and the budget.

    An aggregate such as AZ-NAS compares all candidates with each other, so it has no score of a
    single one: a strategy cannot learn from it, and its ranking changes with every candidate. An
    aggregate with a reference has a score of each.

    Raises:
        UsageError: They do not.
    """
    proxy = plan.proxy
    objectives = [proxy]
    if strategy.needs_objectives:
        objectives.extend(plan.beside)
    for objective in objectives:
        if _compares_candidates(objective) and strategy.learns:
            raise UsageError(
                f"{objective.name} compares all candidates, and {strategy.name} needs a score of "
                "each alone; take --strategy random, or another proxy"
            )
    if strategy.needs_objectives:
        _check_objectives_differ(strategy, plan)
    if _compares_candidates(proxy) and budget.stable:
        raise UsageError(
            f"{proxy.name} compares all candidates, so its ranking never settles; give a --budget"
        )
    if plan.screening is not None and proxy in plan.screening.proxies:
        raise UsageError(
            f"{proxy.label} cannot screen for itself; screen by something cheaper, such as params"
        )


def _compares_candidates(proxy: Proxy) -> bool:
    return bool(proxy.parts) and not proxy.reference_size


def _check_objectives_differ(strategy: StrategySpec, plan: ScoringPlan) -> None:
    measures = {plan.proxy.measure}
    for proxy in plan.beside:
        if proxy.measure in measures:
            example = "params"
            if proxy.name == "params":
                example = "flops"
            raise UsageError(
                f"{strategy.name} weighs different objectives, and {proxy.label} is named twice; "
                f"take another --beside, such as {example}"
            )
        measures.add(proxy.measure)


def check_data(space: Space, task: Task) -> None:
    """Refuse a table of rows for networks that take images, and the reverse.

    Some networks take inputs of any shape, so a network is tried.

    Args:
        space: The space.
        task: The task of the data.

    Raises:
        UsageError: Networks of the space do not take the data.
    """
    if len(task.input_shape) == len(space.task.input_shape):
        return

    def run_network() -> torch.Tensor:
        rng = make_generator("matching", space.name)
        with random_state(0), torch.no_grad():
            network = space.build(space.sample(rng), task)
            outputs: torch.Tensor = network.eval()(torch.zeros(2, *task.input_shape))
            return outputs

    outcome = catch_failure(run_network)
    if isinstance(outcome, Failure):
        raise UsageError(
            f"{task.dataset} has rows of {task.input_shape[0]} columns, and networks of {space.name} "
            f"do not take them ({outcome.detail}); "
            "for a table add --space nasrec_small --proxy sigeo"
        )
