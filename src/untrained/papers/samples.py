"""What the experiments share: architectures of a table, what is known of them, and what was measured.

Scores are arrays (seeds, architectures), NaN where a network has none, so that formulas of scores read like formulas.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from untrained._load import parse_call
from untrained._root import data_root
from untrained.data import Source, load
from untrained.engine.measure import Start
from untrained.errors import UsageError
from untrained.papers.experiment import ExperimentConfig
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import load_space
from untrained.strategies._desk import warming
from untrained.strategies._run import STORE
from untrained.studies._judge import column
from untrained.studies._scores import scored
from untrained.studies._truth import Truth, known, looked_at
from untrained.training.warmup import WarmUp
from untrained.types import Arch, Task

Scores = NDArray[np.float64]  # (seeds, architectures)


@dataclass(frozen=True)
class Place:
    """Where correlations are taken: a table, the data set it was trained on, and what networks look at."""

    label: str
    space: str = "nasbench201"  # with options, such as nasbench201(channels=4)
    dataset: str | None = None
    benchmark: str | None = None
    metric: str | None = None
    data: str | None = None


@dataclass(frozen=True)
class Measured:
    """What proxies said of some architectures."""

    scores: Mapping[str, Scores]  # by the name that was asked for, as measured
    failures: Mapping[str, Mapping[str, int]]
    proxies: Mapping[str, Proxy]

    def __getitem__(self, name: str) -> Scores:
        return self.scores[name]

    def better(self, name: str) -> Scores:
        """Scores turned so that higher is better."""
        return self[name] if self.proxies[name].higher_is_better else -self[name]

    def failed(self, *names: str) -> str:
        """How many have no score and why, in words; empty where all have one."""
        kinds: dict[str, int] = {}
        for name in names:
            kinds |= {kind: max(count, kinds.get(kind, 0)) for kind, count in self.failures[name].items()}
        return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


@dataclass(frozen=True)
class Sample(Measured):
    """Architectures of a table, what they are known to reach, and what was measured of them."""

    place: Place
    truth: Truth
    source: Source
    deviations: tuple[str, ...]

    @property
    def reached(self) -> Scores:
        """The truth, (1, architectures), higher is better."""
        return np.array([self.truth.values])

    def reached_on(self, dataset: str) -> Scores:
        """Test accuracy of the same architectures after training on another data set."""
        metric = self.truth.table.metric(dataset=dataset, split="test", epochs=200)
        return self.truth.table.values(self.truth.archs, metric)[None]


def look(
    effort: ExperimentConfig, names: Sequence[str], place: Place, archs: Sequence[str] = (), warm_up: str = ""
) -> Sample:
    """Measure architectures of a table by the proxies of these names: a random sample of it, or those of `archs`, after
    the warm-up where one is asked for."""
    truth = known(place.space, place.benchmark, place.dataset, place.metric, effort.samples, 0, effort.data_root)
    truth = _settled(place, truth, archs)
    shown, source = _shown(place, truth, effort)
    home = load_space(truth.space)
    asked = WarmUp.of(warm_up, source) if warm_up else None
    start = asked.begin(home, 0, effort.compute.device, effort.folder, warming(effort.on_progress)) if asked else None
    found = measure(effort, names, truth.space, truth.archs, source, f"{place.label} {warm_up}".strip(), start)
    return Sample(**vars(found), place=place, truth=truth, source=source,
                  deviations=_deviations(place, truth, shown, source.task, effort))  # fmt: skip


def measure(
    effort: ExperimentConfig,
    names: Sequence[str],
    space: str,
    archs: Sequence[Arch],
    source: Source,
    stage: str,
    start: Start | None = None,
) -> Measured:
    """What the proxies of these names say, in the folder of the effort, which remembers."""
    called = {name: capped(name, effort.batch) for name in names}
    proxies = {name: load_proxy(call) for name, call in called.items()}
    judges = {proxy.measure: proxy for proxy in proxies.values()}
    typed = {proxies[name].measure: call for name, call in called.items()}
    seeds, store = range(effort.seeds), effort.folder / STORE
    work = (effort.compute, store, typed, effort.on_progress, stage, start)
    done = scored(space, archs, list(judges.values()), source, seeds, *work)
    found = {name: column(done.records, proxy.measure, archs, seeds) for name, proxy in proxies.items()}
    scores = {name: np.array(by_seed, dtype=np.float64) for name, (by_seed, _) in found.items()}
    return Measured(scores, {name: counted for name, (_, counted) in found.items()}, proxies)


def capped(name: str, batch: int | None) -> str:
    """The name of a proxy that looks at no more than so many samples."""
    samples = load_proxy(name).samples
    if batch is None or batch >= samples:
        return name
    base, options = parse_call(name)
    written = ",".join(f"{option}={value}" for option, value in (options | {"samples": batch}).items())
    return f"{base}({written})"


def _settled(place: Place, truth: Truth, archs: Sequence[str]) -> Truth:
    """The truth of the architectures wanted, as networks of the space with its options."""
    home = load_space(place.space if "(" in place.space else truth.space)
    wanted = tuple(home.parse(text) for text in archs or map(str, truth.archs))
    sign = 1 if truth.metric.higher_is_better else -1
    values = tuple((sign * truth.table.values(wanted, truth.metric)).tolist())
    return replace(truth, space=home.name, archs=wanted, values=values)


def images_of(dataset: str, root: str | Path | None) -> str | None:
    """What to type for the images of a data set: its own name, or that of a file NAME.npz under the data root; None
    where there are none."""
    like = Task(dataset, (3, 32, 32), 10)
    for name in (dataset, f"npz:{data_root(root) / dataset}.npz"):
        with suppress(UsageError):
            load(name, like, root).batch(1)
            return name
    return None


def _shown(place: Place, truth: Truth, effort: ExperimentConfig) -> tuple[str, Source]:
    """What networks look at: the images of the data set, or else what comes nearest to them."""
    name = place.data
    if name is None and len(truth.task.input_shape) == 3:
        found = (images_of(dataset, effort.data_root) for dataset in (truth.metric.dataset, "cifar10"))
        name = next(filter(None, found), "digits")
    name, source, _ = looked_at(name or "noise", truth, effort.data_root)
    return name, source


def _deviations(place: Place, truth: Truth, shown: str, task: Task, effort: ExperimentConfig) -> tuple[str, ...]:
    """What is different from any paper for a reason that is ours."""
    table, told = truth.table, []
    if len(table) < table.size and table.size < 1e9:
        told.append(f"{place.label}: our table holds {len(table):,} of {table.size:,} architectures.")
    if truth.metric.about.startswith("a surrogate"):
        told.append(f"{place.label}: the truth is what a surrogate says of {len(table):,} cells, not a training.")
    if place.data is None and not _same(shown, truth.metric.dataset):
        outputs = f", and have {task.num_classes} outputs" if task.num_classes != truth.task.num_classes else ""
        told.append(f"{place.label}: networks look at {shown}{outputs}, since images of {truth.metric.dataset} are "
                    f"not under the data root.")  # fmt: skip
    if effort.batch is not None:
        told.append(f"Networks look at no more than {effort.batch} samples: this is a trial.")
    return tuple(told)


def _same(shown: str, dataset: str) -> bool:
    return shown == dataset or shown.endswith(f"{dataset}.npz")
