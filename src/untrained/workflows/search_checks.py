"""Refuse searches that cannot work, before anything is computed or written."""

import torch

from untrained.config import DEFAULT_PROXY, SearchConfig
from untrained.data.samples import DATASET_NAME
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
        config: The search: `--validate`, `--also` and `--screen`.

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
            f"--validate is for the strategies hnas and best_of_pool; {name} uses only the proxy"
        )
    if strategy.needs_objectives and not config.also:
        raise UsageError(
            f"{name} optimises several objectives; add one or two, such as --also params"
        )
    if config.screen and (strategy.learns or strategy.needs_validation):
        raise UsageError(
            f"--screen is for strategies that do not use scores; use --strategy random, not {name}"
        )


def choose_proxy(strategy: StrategySpec, proxy: str | Proxy) -> str | Proxy:
    """Return the proxy of a search: that of the strategy if it has its own, else the user's.

    Args:
        strategy: The strategy.
        proxy: What the user asks for.

    Raises:
        UsageError: The user asks for a proxy that the strategy does not use.
    """
    if not strategy.pool_proxy_names:
        return proxy
    own_proxy = strategy.pool_proxy_names[0]
    if load_proxy(proxy).label not in (DEFAULT_PROXY, own_proxy):
        name = strategy.name
        raise UsageError(
            f"{name} ranks its pool by {own_proxy}; leave out --proxy, or type {name}(metric=...)"
        )
    return own_proxy


def check_plan(strategy: StrategySpec, plan: ScoringPlan, budget: Budget) -> None:
    """Check that the proxies suit the strategy and the budget.

    An aggregate such as AZ-NAS compares all candidates with each other, so a single candidate has
    no score: a strategy cannot learn from it, and every new candidate changes the ranking. With an
    aggregate that has a reference, each candidate has a score.

    Raises:
        UsageError: The strategy or the budget cannot be used with these proxies.
    """
    proxy = plan.proxy
    objectives = [proxy]
    if strategy.needs_objectives:
        objectives.extend(plan.additional_proxies)
    for objective in objectives:
        if _compares_candidates(objective) and strategy.learns:
            raise UsageError(
                f"{objective.name} compares all candidates, and {strategy.name} needs a separate "
                "score of each; use --strategy random, or another proxy"
            )
    if strategy.needs_objectives:
        _check_objectives_differ(strategy, plan)
    if _compares_candidates(proxy) and budget.stable:
        raise UsageError(
            f"{proxy.name} compares all candidates, so its ranking never becomes stable; "
            "use --budget"
        )
    if plan.screening is not None and proxy in plan.screening.proxies:
        raise UsageError(
            f"--screen and --proxy are both {proxy.label}; use a cheaper proxy for --screen, "
            "such as params"
        )


def _compares_candidates(proxy: Proxy) -> bool:
    return bool(proxy.parts) and not proxy.reference_size


def _check_objectives_differ(strategy: StrategySpec, plan: ScoringPlan) -> None:
    measures = {plan.proxy.measure}
    for proxy in plan.additional_proxies:
        if proxy.measure in measures:
            example = "params"
            if proxy.name == "params":
                example = "flops"
            raise UsageError(
                f"{strategy.name} needs different objectives, and {proxy.label} is named twice; "
                f"use another --also, such as {example}"
            )
        measures.add(proxy.measure)


def check_data(space: Space, task: Task) -> None:
    """Refuse a table for networks that expect images, and images for networks that expect tables.

    Some networks accept inputs of any shape, so one network is built and run.

    Args:
        space: The space.
        task: The task of the data.

    Raises:
        UsageError: Networks of the space do not accept the data.
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
    if isinstance(outcome, Failure) and not task.is_table:
        shape = "x".join(str(side) for side in task.input_shape)
        raise UsageError(
            f"{task.dataset} has samples of shape {shape}, and networks of {space.name} do not "
            f"accept them ({outcome.detail}); for images use --space nasbench201 or convnet"
        )
    if isinstance(outcome, Failure):
        advice = "for a table use --space nasrec_small, or mlp if all its columns are numbers"
        if task.dataset == DATASET_NAME and len(space.task.input_shape) == 2:
            advice = "for series of one channel add an axis to the inputs: x[:, None]"
        elif task.dataset == DATASET_NAME:
            advice = "for rows of numbers use space='mlp'"
        raise UsageError(
            f"{task.dataset} has rows of {task.input_shape[0]} columns, and networks of "
            f"{space.name} do not accept them ({outcome.detail}); {advice}"
        )
