"""Samples of architectures of a benchmark table, with their accuracies and their scores.

Scores are arrays of shape (seeds, architectures) in which missing scores are NaN, so the code of a
formula looks like the formula in the paper.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from untrained.benchmarks.comparison import collect_scores
from untrained.benchmarks.statistics import orient_score
from untrained.data import DataSource, load_data
from untrained.data_root import find_data_root
from untrained.engine.seed_batches import SeedBatches
from untrained.engine.worker_setup import WeightSource
from untrained.errors import UsageError
from untrained.names import parse_call
from untrained.papers.experiment import ExperimentConfig
from untrained.proxies import Proxy, load_proxy
from untrained.seeds import make_generator
from untrained.spaces import load_space
from untrained.training.warm_up import WarmUp
from untrained.types import FRESH, Arch, Record, Task
from untrained.workflows.ground_truth import GroundTruth, load_benchmark_data, load_ground_truth
from untrained.workflows.score_architectures import score_architectures

NOT_RECORDED = "not recorded"  # why a proxy has no scores if nothing is measured
MIN_SAMPLES = 3  # architectures that a correlation needs
SUBSTITUTE = "digits"  # the images that networks see if those of CIFAR-10 are missing
Scores = NDArray[np.float64]  # (seeds, architectures)


@dataclass(frozen=True)
class BenchmarkTask:
    """A benchmark table and one of its data sets, on which correlations are measured.

    Attributes:
        label: Its name in the paper.
        space: The space, with options where they matter, such as `nasbench201(channels=4)`.
        dataset: The data set that the architectures of the table were trained on.
        benchmark: The table; by default the one of the space.
        metric: The metric of the table; by default the test accuracy at the end of training.
        data: The images that networks see; by default those of `dataset`.
    """

    label: str
    space: str = "nasbench201"
    dataset: str | None = None
    benchmark: str | None = None
    metric: str | None = None
    data: str | None = None


@dataclass(frozen=True)
class Measurements:
    """Scores of some architectures.

    Attributes:
        scores: The scores of each proxy, by its name as the experiment wrote it.
        failures: How many architectures have no score, by proxy and by kind of failure.
        proxies: The proxies by name.
        rank_failures_last: Whether architectures without a score rank last; else they are left out.
    """

    scores: Mapping[str, Scores]
    failures: Mapping[str, Mapping[str, int]]
    proxies: Mapping[str, Proxy]
    rank_failures_last: bool = field(default=False, kw_only=True)

    def __getitem__(self, name: str) -> Scores:
        return self.scores[name]

    def get_oriented_scores(self, name: str) -> Scores:
        """Return the scores of a proxy, with the sign reversed if lower is better."""
        return orient_score(self[name], self.proxies[name].higher_is_better)

    def rank_failures(self, scores: Scores, *names: str) -> Scores:
        """With `failures=last`, rank an architecture last if any of these proxies failed on it.

        Args:
            scores: Scores that were computed from the proxies; higher is better.
            *names: The proxies.
        """
        if not self.rank_failures_last:
            return scores
        missing = np.asarray(np.isnan([self[name] for name in names]).any(0))
        return rank_last(scores, missing)

    def have_scores(self, *names: str) -> bool:
        """Return whether all of these proxies were measured or have recorded scores."""
        return not any(NOT_RECORDED in self.failures[name] for name in names)

    def describe_failures(self, *names: str) -> str:
        """Return the numbers of failures by kind, such as "3 disconnected, 1 nan"."""
        counts: dict[str, int] = {}
        for name in names:
            # Proxies often fail on the same networks, so the largest count is used, not the sum.
            for kind, count in self.failures[name].items():
                counts[kind] = max(count, counts.get(kind, 0))
        return ", ".join(f"{count} {kind}" for kind, count in counts.items())


@dataclass(frozen=True)
class Sample(Measurements):
    """Architectures of a table, their known accuracies, and their scores.

    Attributes:
        task: The table and the data set.
        truth: The table, the architectures and their values in it.
        source: The images that networks saw.
        deviations: Sentences that say which tables or images are missing.
    """

    task: BenchmarkTask
    truth: GroundTruth
    source: DataSource
    deviations: tuple[str, ...]

    @property
    def accuracies(self) -> Scores:
        """The accuracies of the table, (1, architectures)."""
        return np.array([self.truth.values])

    def read_accuracies_on(self, dataset: str) -> Scores:
        """Return the test accuracies of the same architectures on another data set of the table."""
        metric = self.truth.table.find_metric(dataset=dataset, split="test", epochs=200)
        # The new axis is that of the seeds. Accuracies are the same for all of them.
        return self.truth.table.read_values(self.truth.archs, metric)[None]


def measure_sample(
    config: ExperimentConfig,
    names: Sequence[str],
    task: BenchmarkTask,
    archs: Sequence[str] = (),
    warm_up: str = "",
) -> Sample:
    """Score architectures of a table with several proxies.

    Args:
        config: Number of architectures and seeds, folder, device.
        names: The proxies.
        task: The table and the images.
        archs: The architectures; by default a random sample of the table.
        warm_up: A warm-up of the weights before scoring, such as `10%`; empty for none.
    """
    truth = load_ground_truth(
        space=task.space,
        benchmark=task.benchmark,
        dataset=task.dataset,
        metric=task.metric,
        samples=config.samples,
        # A fixed seed: all experiments of a table use the same architectures.
        seed=0,
        root=config.data_root,
    )
    if config.only_recorded and not archs:
        archs = _list_recorded_archs(config, truth)
    # The table's own space has default options; the experiment may need others.
    truth = _select_archs(task, truth, archs)
    data, source = _choose_data(task, truth, config)
    weight_source = None
    if warm_up:
        space = load_space(truth.space)
        weight_source = WarmUp.parse(warm_up, source).prepare_weights(
            space,
            seed=0,
            device=config.compute.device,
            folder=config.folder,
            on_progress=config.on_progress,
        )
    deviations = _describe_deviations(task, truth, data, source.task, config)
    if config.only_recorded:
        count_note = f"{task.label}: {len(truth.archs):,} architectures with recorded scores."
        deviations = (count_note, *deviations)
    stage = f"{task.label} {warm_up}".strip()
    measurements = measure_archs(
        config, names, truth.space, truth.archs, source, stage, weight_source
    )
    return Sample(
        **vars(measurements),
        task=task,
        truth=truth,
        source=source,
        deviations=deviations,
    )


def measure_archs(
    config: ExperimentConfig,
    names: Sequence[str],
    space: str,
    archs: Sequence[Arch],
    source: DataSource,
    stage: str,
    weight_source: WeightSource | None = None,
) -> Measurements:
    """Score architectures with several proxies; scores that are in the folder already are reused.

    Args:
        config: Number of seeds, folder, device.
        names: The proxies.
        space: The space of the architectures.
        archs: The architectures.
        source: The images that networks see.
        stage: Name of the stage in progress events.
        weight_source: Where initial weights come from; by default they are random.
    """
    calls = {name: limit_samples(name, config.batch) for name in names}
    proxies = {name: load_proxy(call) for name, call in calls.items()}
    # Two names may denote the same proxy, which is measured once.
    proxies_by_measure = {proxy.measure: proxy for proxy in proxies.values()}
    # Workers in other processes load the proxies by these texts.
    calls_by_measure = {proxies[name].measure: call for name, call in calls.items()}
    seeds = range(config.seeds)
    init = weight_source.init if weight_source else FRESH
    records, unrecorded = _read_recorded(
        config, archs, list(proxies_by_measure.values()), source, init
    )
    if unrecorded and not config.only_recorded:
        result = score_architectures(
            space,
            archs,
            unrecorded,
            source,
            seeds,
            config.compute,
            store_path=config.store_path,
            proxy_names_by_measure=calls_by_measure,
            on_progress=config.on_progress,
            stage=stage,
            weights=weight_source,
        )
        records += result.records
    scores = {}
    failures = {}
    for name, proxy in proxies.items():
        if config.only_recorded and proxy in unrecorded:
            scores[name] = np.full((config.seeds, len(archs)), np.nan)
            failures[name] = {NOT_RECORDED: len(archs)}
            continue
        scores_by_seed, failures[name] = collect_scores(records, proxy.measure, archs, seeds)
        scores[name] = np.array(scores_by_seed, dtype=np.float64)
    rank_failures_last = config.failures == "last"
    return Measurements(scores, failures, proxies, rank_failures_last=rank_failures_last)


def _list_recorded_archs(config: ExperimentConfig, truth: GroundTruth) -> list[str]:
    """Return architectures of a table that have recorded scores, at most `samples` of them.

    Raises:
        UsageError: There are fewer than three.
    """
    assert config.recorded is not None
    recorded = config.recorded
    values = truth.table.read_column(truth.metric)
    recorded_archs = []
    for text, value in zip(truth.table.list_archs(), values, strict=True):
        if text in recorded.archs and np.isfinite(value):
            recorded_archs.append(text)
    if len(recorded_archs) < MIN_SAMPLES:
        raise UsageError(
            f"{recorded.path} has scores of {len(recorded_archs)} architectures of "
            f"{truth.table.name}, and a correlation needs {MIN_SAMPLES}"
        )
    rng = make_generator("recorded", truth.table.name)
    indices = rng.permutation(len(recorded_archs))[: config.samples]
    return [recorded_archs[index] for index in sorted(indices)]


def rank_last(scores: Scores, selected: NDArray[np.bool_]) -> Scores:
    """Replace the selected scores by one that is worse than all others.

    Args:
        scores: Scores of shape (seeds, architectures); higher is better.
        selected: Mask of the scores to replace, of the same shape.
    """
    finite = scores[np.isfinite(scores)]
    lowest = float(finite.min()) if len(finite) else 0.0
    return np.where(selected, lowest - 1.0, scores)


def _read_recorded(
    config: ExperimentConfig,
    archs: Sequence[Arch],
    proxies: Sequence[Proxy],
    source: DataSource,
    init: str,
) -> tuple[list[Record], list[Proxy]]:
    """Return the records of another run, and the proxies that it did not measure."""
    if config.recorded is None:
        return [], list(proxies)
    batches = SeedBatches.for_proxies(source, proxies, range(config.seeds))
    records: list[Record] = []
    unrecorded = []
    for proxy in proxies:
        proxy_records = config.recorded.find_records(archs, proxy, batches, init)
        if proxy_records is None:
            unrecorded.append(proxy)
        else:
            records += proxy_records
    return records, unrecorded


def limit_samples(name: str, batch: int | None) -> str:
    """Return the name of a proxy with an option that limits its samples to `batch`."""
    # A proxy that already sees fewer samples keeps its name, so its stored scores are reused.
    samples = load_proxy(name).samples
    if batch is None or batch >= samples:
        return name
    base, options = parse_call(name)
    options = options | {"samples": batch}
    arguments = ",".join(f"{option}={value}" for option, value in options.items())
    return f"{base}({arguments})"


def _select_archs(task: BenchmarkTask, truth: GroundTruth, archs: Sequence[str]) -> GroundTruth:
    """Return the ground truth of some architectures, which belong to the space of the task.

    Args:
        task: The task, whose space may have other options than that of the table.
        truth: The table, and a sample of its architectures.
        archs: The architectures to use; those of the sample if empty.
    """
    space = load_space(task.space if "(" in task.space else truth.space)
    texts = archs or [str(arch) for arch in truth.archs]
    selected = tuple(space.parse(text) for text in texts)
    # Values are oriented so that higher is better, as everywhere in the experiments.
    values = []
    for value in truth.table.read_values(selected, truth.metric).tolist():
        values.append(orient_score(value, truth.metric.higher_is_better))
    return replace(truth, space=space.name, archs=selected, values=tuple(values))


def find_images(dataset: str, root: str | Path | None) -> str | None:
    """Find the images of a data set.

    Args:
        dataset: Name of the data set.
        root: The data root.

    Returns:
        The name of the data source: that of the data set, or of a file DATASET.npz in the data
        root. None if there are no images.
    """
    task = Task(dataset, (3, 32, 32), 10)
    # Drawing one sample is the only sure way to know that the images are there.
    for name in (dataset, f"npz:{find_data_root(root) / dataset}.npz"):
        with suppress(UsageError):
            load_data(name, task, root).batch(1)
            return name
    return None


def find_cifar10(config: ExperimentConfig) -> str:
    """Return the name of the images of CIFAR-10, or `digits` if they are not in the data root."""
    return find_images("cifar10", config.data_root) or SUBSTITUTE


def describe_substitute(data: str, networks: str = "Networks") -> str:
    """Return a sentence that says that CIFAR-10 is missing; empty if it is not.

    Args:
        data: The images, as `find_cifar10` returns them.
        networks: What sees the images: "Networks" or "Supernets".
    """
    if data != SUBSTITUTE:
        return ""
    return f"{networks} see {SUBSTITUTE}, because CIFAR-10 is not in the data root."


def describe_trial(
    config: ExperimentConfig, networks: str = "networks", samples: str = "samples"
) -> str:
    """Return a sentence about the limit on the samples of a quick trial; empty without a limit.

    Args:
        config: Has the limit.
        networks: What sees the samples: "networks" or "supernets".
        samples: What a sample is: "samples" or "rows".
    """
    if config.batch is None:
        return ""
    return f"This is a quick trial: {networks} see at most {config.batch} {samples}."


def _choose_data(
    task: BenchmarkTask, truth: GroundTruth, config: ExperimentConfig
) -> tuple[str, DataSource]:
    """Return the images that networks see: those of the data set, or the best substitute."""
    name = task.data
    # For inputs that are not images, noise is the only substitute.
    if name is None and len(truth.task.input_shape) == 3:
        name = find_images(truth.metric.dataset, config.data_root) or find_cifar10(config)
    name, source, _ = load_benchmark_data(name or "noise", truth, config.data_root)
    return name, source


def _describe_deviations(
    task: BenchmarkTask, truth: GroundTruth, data: str, data_task: Task, config: ExperimentConfig
) -> tuple[str, ...]:
    """Describe tables that are incomplete and images that are missing."""
    table = truth.table
    dataset = truth.metric.dataset
    deviations = []
    # A space such as DARTS has about 1e18 architectures, so no table of it is complete.
    if table.size is not None and len(table) < table.size < 1e9:
        deviations.append(
            f"{task.label}: our table contains {len(table):,} of {table.size:,} architectures."
        )
    if "surrogate" in truth.metric.about:
        deviations.append(
            f"{task.label}: accuracies are predictions of a surrogate for {len(table):,} cells, "
            "not trainings."
        )
    # Images that the experiment chooses itself are no deviation. Recorded scores were measured on
    # the images of another run.
    if task.data is None and not config.only_recorded and not _is_name_of(data, dataset):
        outputs = ""
        if data_task.num_classes != truth.task.num_classes:
            outputs = f" and have {data_task.num_classes} outputs"
        deviations.append(
            f"{task.label}: networks see {data}{outputs}, because the images of {dataset} are not "
            "in the data root."
        )
    if config.batch is not None:
        deviations.append(describe_trial(config))
    return tuple(deviations)


def _is_name_of(data: str, dataset: str) -> bool:
    """Return whether `data` denotes the images of a data set, by name or as a file."""
    return data == dataset or data.endswith(f"{dataset}.npz")
