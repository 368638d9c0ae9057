"""`rank(...)`: rank networks by a proxy, to decide which one to train first.

Every factory in a file, or every timm model that matches a pattern, is scored on the same data,
together with its size. A factory is a public function, a partial or a module class that can be
called without arguments; each is called once to check that it returns a network. Naming a file runs
its code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, isclass, signature
from pathlib import Path
from types import FunctionType
from typing import Any, TypeGuard, Unpack

import numpy as np
from torch import nn

from untrained.config import DEFAULT_PROXY
from untrained.engine.worker import index_proxies
from untrained.errors import UsageError
from untrained.formatting import format_count
from untrained.names import load_public_objects
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.runs.aggregates import fit_to_first_candidates
from untrained.runs.ranking import CONFIDENCE, Ranking, rank_records
from untrained.runs.reference import FittedAggregate, describe_consensus
from untrained.types import Arch, Record
from untrained.workflows.arguments import check_option_names
from untrained.workflows.network_spec import Network
from untrained.workflows.score import (
    Proxies,
    ScoreOptions,
    list_networks,
    load_proxies,
    score_networks,
)
from untrained.workflows.scoring_plan import BASELINES
from untrained.workflows.timm_models import is_timm_name, list_timm_models

# Functions with these names run a script; they are not factories.
_SCRIPT_FUNCTIONS = ("main",)


@dataclass(frozen=True)
class Certainty:
    """How certain the score and the place of a network are.

    Attributes:
        low: Lower end of the 95 % interval of its score.
        high: Upper end.
        tied: Whether it is not significantly worse than the first network.
    """

    low: float
    high: float
    tied: bool


@dataclass(frozen=True)
class ModelRanking:
    """Networks in the order in which to train them.

    Attributes:
        proxies: The proxies; the first one decides the order.
        records: All records.
        factory_errors: Names of factories that raised an exception, and the exceptions as text.
    """

    proxies: tuple[Proxy, ...]
    records: tuple[Record, ...]
    factory_errors: tuple[tuple[str, str], ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per network, best first, failures last.

        A row contains the place, the mean of each proxy over the seeds, the 95 % interval of the
        first proxy (`low` and `high`), whether the network is not significantly worse than the
        first one (`tied`), and the error of a network without a place. Interval and `tied` are None
        if they are unknown, see `compute_certainties`.
        """
        means: dict[str, dict[str, float]] = {}
        for proxy in self.proxies:
            standings = self._rank(proxy).standings
            means[proxy.label] = {str(standing.arch): standing.score for standing in standings}
        certainties = self.compute_certainties()

        def make_row(arch: str, place: int | None, error: str | None) -> dict[str, Any]:
            row: dict[str, Any] = {"place": place, "arch": arch}
            for label, mean_by_arch in means.items():
                row[label] = mean_by_arch.get(arch)
            certainty = certainties.get(arch)
            row["low"] = certainty.low if certainty else None
            row["high"] = certainty.high if certainty else None
            row["tied"] = certainty.tied if certainty else None
            row["error"] = error
            return row

        ranking = self._rank(self.proxies[0])
        rows = []
        for place, standing in enumerate(ranking.standings, 1):
            rows.append(make_row(str(standing.arch), place, None))
        for arch, failure in ranking.failed:
            rows.append(make_row(str(arch), None, str(failure)))
        for name, error in self.factory_errors:
            rows.append(make_row(name, None, error))
        return rows

    def compute_certainties(self) -> dict[str, Certainty]:
        """Return how certain the places by the first proxy are, by network.

        For a consensus, the members are bootstrapped: a network is not significantly worse than the
        first one if their order changes in more than 2.5 % of the draws. For another proxy, the
        spread over the seeds is used. With one seed nothing is known about it, and the result is
        empty.
        """
        standings = self._rank(self.proxies[0]).standings
        certainties = {}
        for standing in standings:
            if standing.margin is not None:
                low = standing.score - standing.margin
                high = standing.score + standing.margin
                certainties[str(standing.arch)] = Certainty(low, high, standing.tied)
        fitted = self._fit_consensus()
        if fitted is None or not standings:
            return certainties
        archs = [standing.arch for standing in standings]
        member_certainties = _resample_members(fitted, archs, self.records)
        for arch, certainty in member_certainties.items():
            tied_by_seeds = arch in certainties and certainties[arch].tied
            tied = certainty.tied or tied_by_seeds
            certainties[arch] = Certainty(certainty.low, certainty.high, tied)
        return certainties

    def describe_certainty(self) -> list[str]:
        """Return sentences on how far to trust the order; empty if nothing is known."""
        sentences = []
        ties = sum(certainty.tied for certainty in self.compute_certainties().values())
        if ties:
            networks = format_count(ties, "network")
            verb = "is" if ties == 1 else "are"
            sentences.append(f"= {networks} {verb} not significantly worse than the best (95 %)")
        fitted = self._fit_consensus()
        if fitted is not None:
            facts = fitted.describe()
            advice = "train more than the first network"
            agreement = describe_consensus(facts, advice, is_sample_of_space=False)
            if agreement:
                sentences.append(agreement)
        return sentences

    def find_best(self, proxy: Proxy) -> str | None:
        """Return the network that a proxy ranks first; None if it could not score any."""
        standings = self._rank(proxy).standings
        return str(standings[0].arch) if standings else None

    @property
    def warning(self) -> str:
        """A message if networks have different numbers of outputs, else an empty string.

        Without named data, each network is scored on as many classes as it has outputs.
        """
        first_proxy = self.proxies[0].label
        output_counts = set()
        for record in self.records:
            if record.proxy == first_proxy and record.value is not None:
                output_counts.add(record.task.num_classes)
        if len(output_counts) < 2:
            return ""
        counts = [str(count) for count in sorted(output_counts)]
        return (
            f"the networks have different numbers of outputs ({', '.join(counts)}), and each was "
            "scored with as many classes as it has outputs; to use the same classes for all, add "
            f"--classes {counts[0]} or --data"
        )

    def _rank(self, proxy: Proxy) -> Ranking:
        return rank_records(self.records, proxy.measure, proxy.higher_is_better)

    def _fit_consensus(self) -> FittedAggregate | None:
        """Return the weights of the first proxy if it is a consensus, as the scores used them."""
        first_proxy = self.proxies[0]
        if not first_proxy.reference_size or not self.records:
            return None
        return fit_to_first_candidates(self.records, first_proxy)


def _resample_members(
    fitted: FittedAggregate, archs: Sequence[Arch], records: Sequence[Record]
) -> dict[str, Certainty]:
    """Bootstrap the members of a consensus to find out how certain its ranking is.

    Args:
        fitted: The consensus.
        archs: The ranked networks, best first.
        records: Records of the members.
    """
    scores = fitted.collect_part_scores(records)
    resampled = fitted.consensus.resample_members([scores.get(arch, {}) for arch in archs])
    tail = (1 - CONFIDENCE) / 2
    certainties = {}
    for column, arch in enumerate(archs):
        own_scores = resampled[:, column]
        low, high = np.nanquantile(own_scores, [tail, 1 - tail])
        is_as_good_as_first = own_scores >= resampled[:, 0]
        tied = column > 0 and float(np.mean(is_as_good_as_first)) > tail
        certainties[str(arch)] = Certainty(float(low), float(high), tied)
    return certainties


def rank(
    networks: Network | Path | Sequence[Network | Path],
    proxies: Proxies = (DEFAULT_PROXY,),
    data: object = None,
    **options: Unpack[ScoreOptions],
) -> ModelRanking:
    """Rank networks by the first proxy, and report the other proxies and the sizes too.

    The default, `consensus`, compares the networks with each other: the first 64 of them are its
    reference sample. So its scores change with the list of networks. In a search they do not,
    because the reference is a sample of the space.

    Args:
        networks: Files with factories such as "./models.py", patterns such as "timm:resnet*", or
            single networks as for `score`: modules, architectures, "file.py:factory".
        proxies: Proxies, or their names; the first one decides.
        data: The data, as for `score`.
        **options: Further options, as for `score`, see `ScoreOptions`.

    Returns:
        The networks, best first, with intervals and marks for those that are not significantly
        worse than the best.

    Raises:
        UsageError: An argument is invalid, there is no network in the files, or only one for a
            proxy that compares networks.

    Example:
        >>> from torch import nn
        >>> import untrained as ut
        >>> def make_net(width):
        ...     hidden = nn.Linear(48, width)
        ...     return nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(width, 4))
        >>> ranking = ut.rank([make_net(2), make_net(8), make_net(32)], input_shape=(3, 4, 4))
        >>> [row["params"] for row in ranking.rows()]
        [1700.0, 428.0, 110.0]
    """
    check_option_names(rank, options, ScoreOptions.__annotations__)
    baselines = [load_proxy(name) for name in BASELINES]
    # A baseline that the user also named is scored once.
    proxies_by_measure = index_proxies([*load_proxies(proxies), *baselines])
    loaded_proxies = tuple(proxies_by_measure.values())
    listed_networks = list_networks(networks)
    if not listed_networks:
        raise UsageError("there is nothing to rank: give modules, architectures, or 'file.py'")
    names: list[Any] = []
    factory_errors: list[tuple[str, str]] = []
    for network in listed_networks:
        if isinstance(network, Path):
            network = str(network)
        if not isinstance(network, str):
            names.append(network)
        elif is_timm_name(network):
            names += list_timm_models(network)
        elif network.endswith(".py"):
            factory_names, errors = _try_factories(network)
            names += factory_names
            factory_errors += errors
        else:
            names.append(network)
    if not names and factory_errors:
        name, error = factory_errors[0]
        raise UsageError(f"no function makes a network; {name} raised {error}")
    if not names:
        files = ", ".join(str(network) for network in listed_networks)
        raise UsageError(
            f"no function in {files} makes a network; write functions that return an nn.Module"
        )
    records = score_networks(names, loaded_proxies, data, **options)
    return ModelRanking(loaded_proxies, tuple(records), tuple(factory_errors))


def _try_factories(file: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Call the factories in a file.

    Returns:
        Names of the factories that return a network, and names and errors of those that raise an
        exception.
    """
    names = []
    errors = []
    for name, member in load_public_objects(Path(file)).items():
        if name in _SCRIPT_FUNCTIONS or not _is_factory(member):
            continue
        try:
            with random_state(0):
                makes_network = isinstance(member(), nn.Module)
        except Exception as error:
            first_line = f"{type(error).__name__}: {error}".partition("\n")[0]
            errors.append((f"{file}:{name}", first_line))
            continue
        # A function that returns something else is not a factory and is ignored.
        if makes_network:
            names.append(f"{file}:{name}")
    return names, errors


def _is_factory(member: object) -> TypeGuard[Callable[[], object]]:
    """Return whether an object can be called without arguments and may return a network."""
    is_module_class = isclass(member) and issubclass(member, nn.Module)
    is_function = isinstance(member, FunctionType | partial)
    if not callable(member) or not (is_function or is_module_class):
        return False
    try:
        parameters = signature(member).parameters.values()
    except ValueError:
        # A partial of a builtin function may have no signature.
        return False
    for parameter in parameters:
        is_variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if parameter.default is Parameter.empty and not is_variadic:
            return False
    return True
