"""The proxies of a search, and what each of them is used for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from untrained.engine.worker import index_proxies
from untrained.names import is_reference, split_names
from untrained.proxies import Proxy, load_proxy
from untrained.runs.aggregates import expand_aggregates
from untrained.runs.ranking import compute_fitness
from untrained.strategies.base import Fitness
from untrained.strategies.screening import Screening
from untrained.workflows.validation import Validation

# Recorded in every search: a proxy that ranks no better than the size of the network is useless.
BASELINES = ("params", "flops")
# Value of `Proxy.aspects` for proxies that measure a size.
SIZE = "size"


@dataclass(frozen=True)
class ScoringPlan:
    """The proxies of a search.

    Attributes:
        proxy: The proxy of `--proxy`. It ranks the architectures, unless there is a validation.
        proxies: All proxies that score the proposals of the strategy: `proxy`, the short training
            of a validation, `pool_proxies`, the baselines and `additional_proxies`. Aggregates are
            replaced by their parts.
        additional_proxies: The proxies of `--also`.
        pool_proxies: The proxies that score the pool of a strategy that has one.
        screening: The cheap proxies that score all candidates first; None without `--screen`.
        validation: The measure that ranks architectures instead of `proxy`; None without one.
        proxy_names_by_measure: The proxies as the user typed them. Workers load them by these
            names.
        aggregates_with_reference: The requested aggregates that compare a candidate with a
            reference sample.
    """

    proxy: Proxy
    proxies: tuple[Proxy, ...]
    additional_proxies: tuple[Proxy, ...]
    pool_proxies: tuple[Proxy, ...]
    screening: Screening | None
    validation: Validation | None
    proxy_names_by_measure: dict[str, str]
    aggregates_with_reference: tuple[Proxy, ...] = ()

    @property
    def all_proxies(self) -> list[Proxy]:
        """All proxies that any stage of the search uses, each once."""
        proxies = list(self.proxies)
        if self.screening is not None:
            proxies.extend(self.screening.proxies)
        return list(index_proxies(proxies).values())

    @property
    def criterion(self) -> Proxy | Validation:
        """What ranks the architectures: the validation if there is one, else the proxy."""
        return self.validation or self.proxy

    @property
    def fitness(self) -> Fitness:
        """What the search maximises."""
        return _make_fitness(self.criterion.measure, self.criterion.higher_is_better)

    @property
    def pool_fitness(self) -> Fitness:
        """The score that ranks a pool, before the best architectures of the pool are validated."""
        return _make_fitness(self.proxy.measure, self.proxy.higher_is_better)

    @property
    def proxy_name(self) -> str:
        """What to type for the proxy: its label, or the file of the user in which it is defined."""
        typed_name = self.proxy_names_by_measure.get(self.proxy.measure, "")
        if is_reference(typed_name):
            return typed_name
        return self.proxy.label

    def list_objectives(self) -> list[Fitness]:
        """Return what a strategy with several objectives maximises in addition to the fitness."""
        objectives = []
        for proxy in self.additional_proxies:
            objectives.append(_make_fitness(proxy.measure, _is_maximised(proxy)))
        return objectives

    def describe_objectives(self) -> list[dict[str, object]]:
        """Return the additional objectives as plain rows for `run.json`.

        Reports read the rows, because they do not load proxies.
        """
        rows = []
        for proxy in self.additional_proxies:
            row = {
                "label": proxy.label,
                "measure": proxy.measure,
                "higher_is_better": _is_maximised(proxy),
            }
            rows.append(row)
        return rows


def make_scoring_plan(
    proxy: str | Proxy,
    also: str = "",
    screening: Screening | None = None,
    validation: Validation | None = None,
    pool_proxy_names: Sequence[str] = (),
) -> ScoringPlan:
    """Load the proxies of a search.

    Args:
        proxy: The proxy that ranks architectures, or its name.
        also: Names of further proxies to record, separated by commas.
        screening: The cheap proxies that score all candidates first.
        validation: The measure that ranks architectures instead of the proxy.
        pool_proxy_names: Names of the proxies that score a pool; empty for `proxy` alone.

    Raises:
        UsageError: There is no such proxy, or two different ones have the same name.
    """
    main_proxy = load_proxy(proxy)
    additional_names = split_names(also)
    additional_proxies = tuple(load_proxy(name) for name in additional_names)
    pool_proxies = tuple(load_proxy(name) for name in pool_proxy_names)
    if not pool_proxies:
        pool_proxies = (main_proxy,)
    training = None
    if validation is not None:
        training = validation.training

    # Records of an architecture keep this order.
    others: list[Proxy] = []
    if training is not None:
        others.append(training)
    others.extend(pool_proxies)
    others.extend(load_proxy(name) for name in BASELINES)
    others.extend(additional_proxies)
    proxies = [main_proxy]
    for other in others:
        if other.measure != main_proxy.measure:
            proxies.append(other)
    single_proxies = index_proxies(expand_aggregates(proxies)).values()
    with_reference = [member for member in proxies if member.reference_size]

    names: list[str] = []
    if isinstance(proxy, str):
        names.append(proxy)
    names.extend(pool_proxy_names)
    names.extend(additional_names)
    if screening is not None:
        names.extend(screening.names)
    proxy_names_by_measure = {load_proxy(name).measure: name for name in names}
    if validation is not None and training is not None:
        proxy_names_by_measure[validation.measure] = validation.training_name
    return ScoringPlan(
        proxy=main_proxy,
        proxies=tuple(single_proxies),
        additional_proxies=additional_proxies,
        pool_proxies=pool_proxies,
        screening=screening,
        validation=validation,
        proxy_names_by_measure=proxy_names_by_measure,
        aggregates_with_reference=tuple(with_reference),
    )


def _make_fitness(measure: str, higher_is_better: bool) -> Fitness:
    return partial(compute_fitness, measure=measure, higher_is_better=higher_is_better)


def _is_maximised(proxy: Proxy) -> bool:
    """Return whether a strategy with several objectives maximises a proxy.

    Larger networks tend to be more accurate, so a size that is used as a proxy is maximised. As an
    additional objective, a size is the cost of a network and is minimised.
    """
    return proxy.higher_is_better and proxy.aspects != SIZE
