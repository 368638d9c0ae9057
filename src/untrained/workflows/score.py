"""`score(...)`: score any network at initialisation.

A network is an architecture, an architecture string, a module, a factory in a file of the user, a
timm model, or a list of them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from torch import nn

from untrained.data import DataSource
from untrained.data.samples import is_samples
from untrained.engine.devices import check_device
from untrained.engine.evaluator import make_inline_evaluator
from untrained.engine.worker_setup import WeightSource
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.quantities import MAX_CLASSES, check_count, parse_shape, show_value
from untrained.runs.aggregates import compute_aggregates, expand_aggregates
from untrained.runs.store import Store
from untrained.spaces import Space
from untrained.types import Arch, Record, Task
from untrained.workflows.arguments import check_option_names
from untrained.workflows.network_spec import (
    PSEUDO_SPACES,
    Network,
    NetworkSpec,
    load_network_spec,
    load_source_for,
    make_checked_builder,
    unknown_network_error,
)
from untrained.workflows.scores import Scores

DEFAULT_PROXIES = ("dextr",)
Proxies = str | Proxy | Sequence[str | Proxy]


class ScoreOptions(TypedDict, total=False):
    """Further options of `score` and `score_networks`.

    Attributes:
        space: The space of architectures that are named by their text.
        input_shape: Shape of one sample, if neither the data nor the network define it.
        num_classes: Number of classes, if neither the data nor the network define it.
        seeds: Number of seeds to average over, each with its own weights and batch.
        warm_up: Train on a share of the data before scoring: "10%". A module is copied first.
        device: A torch device.
        store: A store, or its path. Records in it are not measured again.
        data_root: Folder that contains the data sets.
    """

    space: str | Space
    input_shape: tuple[int, ...] | None
    num_classes: int | None
    seeds: int
    warm_up: str
    device: str
    store: str | Path | Store | None
    data_root: str | Path | None


# A string is also a sequence of strings, so the two signatures overlap. The first one applies.
@overload
def score(  # type: ignore[overload-overlap]
    network: Network,
    data: object = None,
    *,
    proxies: Proxies = DEFAULT_PROXIES,
    **options: Unpack[ScoreOptions],
) -> Scores: ...


@overload
def score(
    network: Sequence[Network],
    data: object = None,
    *,
    proxies: Proxies = DEFAULT_PROXIES,
    **options: Unpack[ScoreOptions],
) -> list[Scores]: ...


def score(
    network: Network | Sequence[Network],
    data: object = None,
    *,
    proxies: Proxies = DEFAULT_PROXIES,
    **options: Unpack[ScoreOptions],
) -> Scores | list[Scores]:
    """Score a network at initialisation.

    A module is scored with the weights that it has. Architectures and factories are initialised
    for every seed.

    Args:
        network: A module, an architecture, an architecture string, "file.py:factory",
            "timm:resnet18", or a list of them.
        data: Inputs or (inputs, targets) as tensors or numpy arrays, a torch Dataset or DataLoader,
            a path, or the name of a data source, such as "cifar10" or "folder:./photos". None for
            embedded data.
        proxies: Proxies, or their names.
        **options: All other options, see `ScoreOptions`.

    Returns:
        The scores by proxy. For a list of networks, a list with one `Scores` per network.

    Raises:
        UsageError: An argument is invalid. If a proxy fails, no exception is raised here, but when
            its score is read.

    Example:
        >>> import torch
        >>> import untrained as ut
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
        >>> scores = ut.score(model, torch.randn(8, 3, 32, 32), proxies=["params"])
        >>> scores["params"]
        30730.0
    """
    check_option_names(score, options, ScoreOptions.__annotations__)
    results, aggregates = _score_each_network(network, proxies, data, **options)
    scores = []
    for records in results:
        arch = records[0].arch
        own_aggregates = [record for record in aggregates if record.arch == arch]
        scores.append(Scores(records + own_aggregates))
    if isinstance(network, nn.Module | Arch | str):
        return scores[0]
    return scores


def score_networks(
    networks: Network | Sequence[Network],
    proxies: Proxies = DEFAULT_PROXIES,
    data: object = None,
    **options: Unpack[ScoreOptions],
) -> list[Record]:
    """Score one or many networks as `score` does, and return plain records.

    Returns:
        One record per network, seed and proxy, in this order. Records of aggregates are last.
    """
    results, aggregates = _score_each_network(networks, proxies, data, **options)
    records = []
    for network_records in results:
        records += network_records
    return records + aggregates


def _score_each_network(
    networks: object,
    proxies: object,
    data: object,
    *,
    space: str | Space = "nasbench201",
    input_shape: tuple[int, ...] | None = None,
    num_classes: int | None = None,
    seeds: int = 1,
    warm_up: str = "",
    device: str = "cpu",
    store: str | Path | Store | None = None,
    data_root: str | Path | None = None,
) -> tuple[list[list[Record]], list[Record]]:
    """Return the records of each network, and the records of aggregates over all networks."""
    if isinstance(data, nn.Module):
        raise UsageError("the network comes first and the data second: score(model, inputs)")
    loaded_proxies = load_proxies(proxies)
    seeds = check_count(seeds, "seeds")
    device = check_device(device)
    if num_classes is not None:
        num_classes = check_count(num_classes, "num_classes", 1, MAX_CLASSES)
    if input_shape is not None:
        input_shape = parse_shape(input_shape)
    specs = []
    for network in list_networks(networks):
        # A warm-up must not train the user's own module.
        specs.append(load_network_spec(network, space, device, copy_module=bool(warm_up)))
    if not specs:
        raise UsageError(
            "there is nothing to score: give a module, an architecture, or 'file.py:factory'"
        )
    for proxy in loaded_proxies:
        if proxy.parts and len(specs) < 2:
            raise UsageError(f"{proxy.name} compares networks with each other; give at least two")
    numbered_archs = number_duplicates([spec.arch for spec in specs])
    has_fixed_classes = isinstance(data, str | Path) or num_classes is not None
    warm_weights = _WarmWeights(warm_up, device)
    results: list[list[Record]] = []
    all_records: list[Record] = []
    with _open_store(store) as opened_store:
        for spec, numbered_arch in zip(specs, numbered_archs, strict=True):
            source = load_source_for(spec, data, input_shape, num_classes, data_root)
            evaluator = make_inline_evaluator(
                make_checked_builder(spec, source.task, has_fixed_classes),
                source,
                expand_aggregates(loaded_proxies),
                range(seeds),
                device,
                opened_store if spec.cacheable else None,
                # One network is measured after the other, so each can use all threads.
                single_thread=False,
                code=spec.fingerprint_code(space),
                **warm_weights.prepare(spec, source),
            )
            # Random numbers depend on the name of a network. It is measured under its name without
            # a number, so that its score does not depend on the other networks of the list.
            (measured,) = evaluator([spec.arch])
            records = []
            for record in measured:
                request = replace(record.request, arch=numbered_arch)
                records.append(replace(record, request=request))
            results.append(records)
            all_records += records
    aggregates: list[Record] = []
    for proxy in loaded_proxies:
        if proxy.parts:
            aggregates += compute_aggregates(all_records, proxy)
    return results, aggregates


def number_duplicates(archs: Sequence[Arch]) -> list[Arch]:
    """Add a number to repeated names: `Sequential`, `Sequential#2`, `Sequential#3`.

    Modules, factories and timm models with the same name can be different networks. Architectures
    of a space are not numbered: equal ones are the same network.
    """
    counts: Counter[Arch] = Counter()
    numbered_archs = []
    for arch in archs:
        counts[arch] += 1
        number = counts[arch]
        if arch.space in PSEUDO_SPACES and number > 1:
            arch = Arch(arch.space, (*arch.genes, ("number", number)), f"{arch}#{number}")
        numbered_archs.append(arch)
    return numbered_archs


def load_proxies(proxies: object) -> list[Proxy]:
    """Load a proxy or several proxies.

    Raises:
        UsageError: There is none, one is unknown, or the argument is something else.
    """
    if isinstance(proxies, str | Proxy):
        proxies = [proxies]
    if not isinstance(proxies, Iterable):
        raise UsageError(
            f"proxies is {show_value(proxies)}; give names, such as ['dextr', 'naswot']"
        )
    loaded = [load_proxy(proxy) for proxy in proxies]
    if not loaded:
        raise UsageError("name at least one proxy, such as dextr")
    return loaded


def list_networks(networks: object) -> list[object]:
    """Return a network or several networks as a list.

    Raises:
        UsageError: The argument is neither a network nor a list.
    """
    if isinstance(networks, nn.Module | Arch | str | Path):
        return [networks]
    if is_samples(networks):
        raise unknown_network_error(networks)
    if not isinstance(networks, Iterable):
        raise unknown_network_error(networks)
    return list(networks)


def _open_store(store: "str | Path | Store | None") -> AbstractContextManager[Store | None]:
    """Open the store at a path for the duration of a block; an open store stays open after it."""
    if isinstance(store, str | Path):
        return Store(store)
    return nullcontext(store)


@dataclass
class _WarmWeights:
    """Prepares warmed-up weights. The supernet of a space is trained once for all architectures."""

    warm_up: str
    device: str
    _sources: dict[tuple[str, Task], WeightSource] = field(default_factory=dict)

    def prepare(self, spec: NetworkSpec, source: DataSource) -> dict[str, Any]:
        """Return the options of `make_inline_evaluator` for these weights; empty for fresh ones."""
        if not self.warm_up:
            return {}
        # Imported here, because warm-ups are rare and the module is slow to import.
        from untrained.training.warm_up import WarmUp

        space = spec.space
        key = (space.name if space else "", source.task)
        if key not in self._sources:
            plan = WarmUp.parse(self.warm_up, source)
            self._sources[key] = plan.prepare_weights(space, 0, self.device, None, None)
        weights = self._sources[key]

        def build_supernet() -> Any:
            return space.supernet(source.task, self.device) if space else None

        return {"init": weights.init, "prepare_weights": weights.open(build_supernet, self.device)}
