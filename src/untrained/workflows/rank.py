"""`rank_models(...)`: which of these networks should be trained first?

Every factory in a file, or every network that a pattern matches, is scored on the same data, with
its size beside the proxy. A factory is a public function, a partial or a module class that can be
called without arguments; each is called once to see whether it returns a network. Naming a file
runs its code.
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
from untrained.names import load_members
from untrained.probe.guard import random_state
from untrained.proxies import Proxy, load_proxy
from untrained.runs.ranking import Ranking, rank_records
from untrained.types import Record
from untrained.workflows.score import score_networks
from untrained.workflows.timm_models import is_timm_name, list_timm_models

BASELINES = ("params", "flops")
# Functions of a file with these names are scripts, not factories.
_NO_FACTORIES = ("main",)


@dataclass(frozen=True)
class ModelRanking:
    """Networks in the order in which to train them.

    Attributes:
        proxies: The proxies; the first one decides the order.
        records: All records.
        left_out: Factories that raised instead of returning a network, and what they raised.
    """

    proxies: tuple[Proxy, ...]
    records: tuple[Record, ...]
    left_out: tuple[tuple[str, str], ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per network, best first, failures last.

        A row has the place, the mean of each proxy over the seeds, and the error if there is no
        place.
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
        for name, error in self.left_out:
            rows.append(make_row(name, None, error))
        return rows

    def first_by(self, proxy: Proxy) -> str | None:
        """Return the network that a proxy ranks first; None if it scored none."""
        standings = self._rank(proxy).standings
        return str(standings[0].arch) if standings else None

    @property
    def caution(self) -> str:
        """A warning if networks have different numbers of outputs, else empty.

        Without named data, each network is scored on as many classes as it has outputs.
        """
        decisive = self.proxies[0].label
        output_counts = set()
        for record in self.records:
            if record.proxy == decisive and record.value is not None:
                output_counts.add(record.task.num_classes)
        if len(output_counts) < 2:
            return ""
        counts = [str(count) for count in sorted(output_counts)]
        return (
            f"the networks have {', '.join(counts[:-1])} or {counts[-1]} outputs, and each was "
            f"judged on as many classes; --classes {counts[0]} or --data asks all the same"
        )

    def _rank(self, proxy: Proxy) -> Ranking:
        return rank_records(self.records, proxy.measure, proxy.higher_is_better)


def rank_models(
    what: Sequence[str],
    proxies: "Sequence[str | Proxy]" = ("dextr",),
    data: str | None = None,
    **options: Any,
) -> ModelRanking:
    """Rank networks by the first proxy, with the others and the sizes beside it.

    Args:
        what: Files such as `./models.py` with factories, patterns such as `timm:resnet*`, or single
            networks as `score_networks` takes them.
        proxies: Proxies, or their names.
        data: Name of the data.
        **options: Further options of `score_networks`.

    Raises:
        UsageError: No network was found.
    """
    names: list[str] = []
    left_out: list[tuple[str, str]] = []
    for name in what:
        if is_timm_name(name):
            names += list_timm_models(name)
        elif name.endswith(".py"):
            factory_names, errors = _try_factories(name)
            names += factory_names
            left_out += errors
        else:
            names.append(name)
    if not names:
        raise UsageError(
            f"nothing in {', '.join(what)} makes a network: "
            "write functions that return an nn.Module"
        )
    # A baseline that was named is not scored twice.
    distinct_proxies = dict.fromkeys((*proxies, *BASELINES))
    loaded = tuple(load_proxy(proxy) for proxy in distinct_proxies)
    records = score_networks(names, loaded, data, **options)
    return ModelRanking(loaded, tuple(records), tuple(left_out))


def _try_factories(file: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Call the factories of a file; return those that make a network, and errors of the others."""
    names = []
    errors = []
    for name, member in load_members(Path(file)).items():
        if name in _NO_FACTORIES or not _is_factory(member):
            continue
        try:
            with random_state(0):
                makes_network = isinstance(member(), nn.Module)
        except Exception as error:
            first_line = f"{type(error).__name__}: {error}".partition("\n")[0]
            errors.append((f"{file}:{name}", first_line))
            continue
        # A function that returns something else is no factory, and no error either.
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
