"""`rank_models(...)`: rank networks by a proxy, to decide which one to train first.

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
from typing import Any

from torch import nn

from untrained.errors import UsageError
from untrained.names import load_public_objects
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.runs.ranking import Ranking, rank_records
from untrained.types import Record
from untrained.workflows.score import score_networks
from untrained.workflows.timm_models import is_timm_name, list_timm_models

BASELINES = ("params", "flops")
# Functions with these names run a script; they are not factories.
_SCRIPT_FUNCTIONS = ("main",)


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

        A row contains the place, the mean of each proxy over the seeds, and the error of a network
        without a place.
        """
        means: dict[str, dict[str, float]] = {}
        for proxy in self.proxies:
            standings = self._rank(proxy).standings
            means[proxy.label] = {str(standing.arch): standing.score for standing in standings}

        def make_row(arch: str, place: int | None, error: str | None) -> dict[str, Any]:
            row: dict[str, Any] = {"place": place, "arch": arch}
            for label, mean_by_arch in means.items():
                row[label] = mean_by_arch.get(arch)
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
            f"the networks have {', '.join(counts[:-1])} or {counts[-1]} outputs, and each was "
            f"scored on as many classes; to score all on the same classes, add "
            f"--classes {counts[0]} or --data"
        )

    def _rank(self, proxy: Proxy) -> Ranking:
        return rank_records(self.records, proxy.measure, proxy.higher_is_better)


def rank_models(
    networks: Sequence[str],
    proxies: "Sequence[str | Proxy]" = ("dextr",),
    data: str | None = None,
    **options: Any,
) -> ModelRanking:
    """Rank networks by the first proxy, and report the other proxies and the sizes too.

    Args:
        networks: Files with factories such as `./models.py`, patterns such as `timm:resnet*`, or
            single networks as for `score_networks`.
        proxies: Proxies, or their names.
        data: Name of the data.
        **options: Further options of `score_networks`.

    Raises:
        UsageError: There is no network in the files.
    """
    names: list[str] = []
    factory_errors: list[tuple[str, str]] = []
    for name in networks:
        if is_timm_name(name):
            names += list_timm_models(name)
        elif name.endswith(".py"):
            factory_names, errors = _try_factories(name)
            names += factory_names
            factory_errors += errors
        else:
            names.append(name)
    if not names:
        raise UsageError(
            f"no function in {', '.join(networks)} makes a network; "
            "write functions that return an nn.Module"
        )
    # A baseline that the user also named is scored once.
    distinct_proxies = dict.fromkeys((*proxies, *BASELINES))
    loaded_proxies = tuple(load_proxy(proxy) for proxy in distinct_proxies)
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
        # A function that returns something else is not a factory. It is ignored.
        if makes_network:
            names.append(f"{file}:{name}")
    return names, errors


def _is_factory(member: Any) -> bool:
    """Return whether an object can be called without arguments and may return a network."""
    is_module_class = isclass(member) and issubclass(member, nn.Module)
    if not isinstance(member, FunctionType | partial) and not is_module_class:
        return False
    factory: Callable[..., Any] = member
    for parameter in signature(factory).parameters.values():
        is_variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if parameter.default is Parameter.empty and not is_variadic:
            return False
    return True
