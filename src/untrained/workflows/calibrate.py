"""`calibrate(...)`: find the proxy that works best on a space and data of the user.

A few architectures, spread over the sizes of the space, are trained briefly on the user's data, and
the ranking of every proxy is compared with their accuracies. A dozen trainings cannot distinguish
good proxies from each other, and the result says so. They can reveal a proxy that fails here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from untrained.benchmarks.comparison import (
    collect_sizes,
    compare_with_truth,
    sort_results,
)
from untrained.benchmarks.result import BENCHMARK_FILE, BenchmarkResult, ProxyResult
from untrained.command_text import format_options
from untrained.config import DEFAULT_DATA, DEFAULT_PROXY, ComputeConfig
from untrained.data import DataSource
from untrained.data.registry import load_data_with_name
from untrained.data.samples import DATASET_NAME
from untrained.engine.devices import parse_device_name
from untrained.errors import UsageError
from untrained.formatting import format_count, format_now
from untrained.names import is_reference, require_trusted_code
from untrained.progress import ProgressCallback
from untrained.proxies import Proxy, load_proxy
from untrained.quantities import MAX_SAMPLES, check_count, check_seed, parse_path
from untrained.runs.folder import STORE, make_folder_name, read_versions
from untrained.seeds import make_generator
from untrained.spaces import Space, get_name_or_space, get_space_name, load_space
from untrained.strategies.driver import DriverResult
from untrained.strategies.random import RandomSearch
from untrained.training.short_training import SHORT_TRAINING
from untrained.types import Arch, Record
from untrained.workflows.arguments import check_space_argument
from untrained.workflows.bench import (
    collect_proxy_scores,
    format_proxies,
    load_proxies_and_baselines,
    map_measures_to_names,
    parse_requested_proxies,
)
from untrained.workflows.score_architectures import score_architectures
from untrained.workflows.search_checks import check_data

# Number of architectures that are sampled per training. The ones to train are chosen from them by
# size.
POOL_PER_TRAINING = 8
# With fewer finished trainings, proxies cannot be compared.
MIN_FINISHED_TRAININGS = 3
AUTO = "auto"
SIZE_PROXY = "params"


def calibrate(
    space: str | Space = "nasbench201",
    proxy: str | Proxy | Sequence[str | Proxy] = "all",
    data: object = DEFAULT_DATA,
    *,
    trainings: int = 12,
    epochs: int = 3,
    samples: int = 1500,
    seed: int = 0,
    device: str = "cpu",
    workers: int | None = None,
    ray: str | None = None,
    time_limit: str | None = None,
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> BenchmarkResult:
    """Compare proxies with a few short trainings on the user's own space and data.

    `search(..., proxy="auto")` uses the recommended proxy: `consensus`, or another proxy that is
    significantly better; `params` takes the place of `consensus` if that was not compared or
    failed, and is recommended if no proxy ranks better than chance.

    Args:
        space: A space, or its name, such as "./mine.py:mynet".
        proxy: Proxies, or their names, which may be separated by commas; "all" for all of them.
        data: Name of the data, or inputs and labels in Python as for `search`.
        trainings: Number of architectures to train.
        epochs: Length of each training.
        samples: Number of samples that a training sees.
        seed: Seed of the sample of architectures and of their weights.
        device: A torch device.
        workers: Number of worker processes; None for one per core or per GPU.
        ray: "local" or the address of a Ray cluster.
        time_limit: Longest time for one architecture, such as "30s".
        run: The run folder; None for one under `runs/` that `--proxy auto` finds.
        data_root: Folder that contains the data sets.
        on_progress: Called after every architecture.

    Returns:
        One result per proxy, best first, and the recommended proxy. It is also saved in the run
        folder.

    Raises:
        UsageError: An argument is invalid, or too few trainings finished.

    Example:
        A calibration on real data needs more and longer trainings than this one.

        >>> import untrained as ut
        >>> result = ut.calibrate(
        ...     "nasbench201(channels=4,cells=1)",
        ...     "naswot",
        ...     trainings=4,
        ...     epochs=1,
        ...     samples=20,
        ...     workers=1,
        ... )
        >>> sorted(row["proxy"] for row in result.rows())
        ['flops', 'naswot', 'params', 'random']
    """
    trainings = check_count(trainings, "trainings", 4)
    epochs = check_count(epochs, "epochs")
    samples = check_count(samples, "samples", 10, MAX_SAMPLES)
    seed = check_seed(seed)
    device = parse_device_name(device)
    if run is not None:
        run = parse_path(run, "run")
    compute = ComputeConfig(device, workers, ray, time_limit)
    check_space_argument(space)
    loaded_space = load_space(space)
    named_space = get_name_or_space(space)
    space_name = get_space_name(named_space)
    data_name, source = load_data_with_name(data, loaded_space.task, data_root)
    default_folder = choose_default_folder(space_name, data_name)
    folder = default_folder
    if run:
        folder = Path(run)
    check_data(loaded_space, source.task)
    training_name = f"{SHORT_TRAINING}(epochs={epochs},samples={samples})"
    training = load_proxy(training_name)
    requested_proxies = parse_requested_proxies(proxy)
    proxies = load_proxies_and_baselines(requested_proxies)
    proxy_names_by_measure = map_measures_to_names(requested_proxies)
    proxy_names_by_measure[training.measure] = training_name
    scorer = _ArchScorer(
        named_space, source, seed, compute, folder / STORE, proxy_names_by_measure, on_progress
    )

    # The sizes are measured first, because they decide which architectures are trained.
    rng = make_generator("calibrate", loaded_space.name, seed)
    pool = RandomSearch(loaded_space, rng).ask(POOL_PER_TRAINING * trainings)
    size_result = scorer.score(pool, [load_proxy("params")], "sizing")
    archs = _spread_over_sizes(size_result.records, trainings)

    training_result = scorer.score(archs, [training], "training")
    accuracies = {}
    for record in training_result.records:
        if record.value is not None:
            accuracies[record.arch] = 100 * record.value
    archs = [arch for arch in archs if arch in accuracies]
    if len(archs) < MIN_FINISHED_TRAININGS:
        failures = [record.error for record in training_result.records if record.error]
        # A space of one or two architectures has too few trainings although none of them failed.
        reason = f"{space_name} has too few architectures"
        if failures:
            reason = f"the first failure is {failures[0]}"
        raise UsageError(f"only {len(archs)} of {trainings} trainings finished; {reason}")

    scoring_result = scorer.score(archs, proxies, "scoring")
    truth = [accuracies[arch] for arch in archs]
    columns = []
    for loaded_proxy in proxies:
        column = collect_proxy_scores(loaded_proxy, scoring_result.records, archs, (seed,))
        columns.append(column)
    sizes = collect_sizes(columns)
    ranked = sort_results(compare_with_truth(column, truth, sizes=sizes) for column in columns)

    best = recommend_proxy(ranked)
    recommended = _find_loadable_name(best, requested_proxies)
    # `auto` alone looks in the default folder.
    next_proxy = "auto"
    if folder != default_folder:
        next_proxy = f"auto:{folder}"
    target = source.task.kind.quality_title
    duration = format_count(epochs, "epoch")
    sample_count = min(samples, len(source.batch(samples)))
    options: dict[str, object] = {
        "space": space_name,
        "proxy": format_proxies(proxy),
        "data": data_name,
        "trainings": trainings,
        "epochs": epochs,
        "samples": samples,
        "seed": seed,
        "device": device,
        "run": str(folder),
    }
    command = ""
    next_command = ""
    # A command cannot name objects in Python.
    if data_name != DATASET_NAME:
        command = f"untrained calibrate {format_options(calibrate, options)}"
        next_command = (
            f"untrained search --space {quote(space_name)} --data {quote(data_name)} "
            f"--proxy {quote(next_proxy)}"
        )
    result = BenchmarkResult(
        title=f"Calibration of proxies for {space_name} on {data_name}",
        command=command,
        space=space_name,
        truth_about=f"held-out {target} on {data_name} after {duration}",
        truth_unit="%",
        archs=tuple(str(arch) for arch in archs),
        truth=tuple(truth),
        proxy_results=ranked,
        notes=(
            f"{len(archs)} architectures, spread over the sizes of the space, were trained for "
            f"{duration} on {sample_count} samples, a fifth of them held out.",
            _describe_certainty(ranked, len(archs), target),
        ),
        advice=_make_advice(ranked, best, recommended),
        next_command=next_command,
        settings={
            "trainings": str(trainings),
            "epochs": str(epochs),
            "data": data_name,
            "seed": str(seed),
            "device": device,
        },
        versions=read_versions(),
        cost={
            "total": size_result.seconds + training_result.seconds + scoring_result.seconds,
            "training": training_result.seconds,
        },
        recommended=recommended,
        folder=str(folder),
        made_on=format_now(),
    )
    return result.save()


@dataclass(frozen=True)
class _ArchScorer:
    """Scores architectures in the three stages of a calibration, with the same settings.

    Attributes:
        space: The space, or its name.
        source: The data.
        seed: Seed of weights and batches.
        compute: Device, workers and time limit.
        store_path: The SQLite file that keeps the records.
        proxy_names_by_measure: How the user wrote the proxies, by measure.
        on_progress: Called after every architecture.
    """

    space: str | Space
    source: DataSource
    seed: int
    compute: ComputeConfig
    store_path: Path
    proxy_names_by_measure: dict[str, str]
    on_progress: ProgressCallback | None

    def score(self, archs: Sequence[Arch], proxies: Sequence[Proxy], stage: str) -> DriverResult:
        """Score architectures with proxies, or read their records."""
        return score_architectures(
            self.space,
            archs,
            proxies,
            self.source,
            (self.seed,),
            self.compute,
            self.store_path,
            self.proxy_names_by_measure,
            self.on_progress,
            stage=stage,
        )


def choose_default_folder(space: str, data: str) -> Path:
    """Return the path of the default folder of a calibration."""
    return Path("runs", make_folder_name("calibrate", space, data))


def is_auto(proxy: object) -> bool:
    """Return whether a calibration chooses the proxy: "auto" or "auto:runs/mine"."""
    return isinstance(proxy, str) and (proxy == AUTO or proxy.startswith(f"{AUTO}:"))


def read_recommended_proxy(space: str, data: str, proxy: str = AUTO) -> str:
    """Return the proxy that a calibration recommends; `search --proxy auto` uses it.

    Args:
        space: Name of the space of the search.
        data: Name of its data.
        proxy: "auto" for the calibration in the default folder, "auto:FOLDER" for another one.

    Raises:
        UsageError: There is no calibration in the folder, or it is one of another space.
    """
    folder = choose_default_folder(space, data)
    if proxy != AUTO:
        folder = Path(proxy.removeprefix(f"{AUTO}:"))
    if not (folder / BENCHMARK_FILE).exists():
        options = format_options(calibrate, {"space": space, "data": data})
        command = f"untrained calibrate {options}".strip()
        raise UsageError(
            f"--proxy {proxy} needs a calibration, and there is none at {folder}: `{command}` "
            "makes one; for one in another folder, type --proxy auto:FOLDER"
        )
    calibration = BenchmarkResult.read(folder)
    if not calibration.recommended:
        raise UsageError(
            f"{folder} contains a benchmark, not a calibration; it recommends no proxy"
        )
    if calibration.space != space:
        raise UsageError(
            f"{folder} is a calibration of {calibration.space}, not of {space}; for its proxy, "
            f"type --proxy {calibration.recommended}"
        )
    recommended = calibration.recommended
    # The folder may come from someone else, and code that the user did not name must not run.
    require_trusted_code(recommended, None, str(folder), f"--proxy {recommended}")
    return recommended


def recommend_proxy(results: Sequence[ProxyResult]) -> str:
    """Return `consensus`, or another proxy that is significantly better.

    `params` takes the place of `consensus` if that was not compared or failed, and is recommended
    if no proxy ranks better than chance. If `params` was not compared either, the best proxy is
    recommended. Proxies that failed on an architecture are not considered.

    Taking the best of many proxies on a few trainings finds worse networks
    (docs/results/few-trainings.md), so a proxy that the trainings cannot distinguish from
    `consensus` is not recommended.
    """
    best = _find_best(results)
    if best is None or _get_spearman(best) <= 0:
        return SIZE_PROXY
    default = _find_default(results)
    if default is not None and not _is_significantly_better(best, default):
        return default.proxy
    return best.proxy


def _find_best(results: Sequence[ProxyResult]) -> ProxyResult | None:
    """Return the result with the highest rank correlation; of equal ones, the cheapest proxy."""
    best = None
    best_key = (0.0, 0.0)
    for result in results:
        if not _can_be_recommended(result):
            continue
        # A difference in the fourth digit is not worth a higher cost.
        key = (round(_get_spearman(result), 3), -(result.cost or 0))
        if best is None or key > best_key:
            best = result
            best_key = key
    return best


def _find_default(results: Sequence[ProxyResult]) -> ProxyResult | None:
    """Return the result of the proxy that is recommended if no other is significantly better."""
    candidates = {result.proxy: result for result in results if _can_be_recommended(result)}
    return candidates.get(DEFAULT_PROXY) or candidates.get(SIZE_PROXY)


def _can_be_recommended(result: ProxyResult) -> bool:
    has_failed = bool(result.failed) or not result.statistics["spearman"]
    return not has_failed and result.proxy != "random"


def _is_significantly_better(first: ProxyResult, second: ProxyResult) -> bool:
    """Return whether the first proxy ranks significantly better than the second."""
    estimate = first.statistics["spearman"]
    other = second.statistics["spearman"]
    if estimate is None or other is None:
        return False
    return estimate.value > other.value and bool(estimate.has_disjoint_interval(other))


def _find_loadable_name(label: str, requested: Sequence[str | Proxy]) -> str:
    """Return what to type for a proxy: its label, or `./file.py:name` for a proxy of the user."""
    for name in requested:
        if isinstance(name, str) and is_reference(name) and load_proxy(name).label == label:
            return name
    return label


def _make_advice(results: Sequence[ProxyResult], best: str, loadable_name: str = "") -> str:
    """Recommend a proxy in one sentence.

    Args:
        results: All results, best first.
        best: Label of the recommended proxy.
        loadable_name: What to type for it, if that is not its label.
    """
    first = _find_best(results)
    default = _find_default(results)
    if first is None or _get_spearman(first) <= 0:
        reason = "no proxy ranked these architectures better than chance"
    elif first.proxy != best:
        reason = "no proxy ranked these architectures significantly better"
    elif default is None or default.proxy == best:
        reason = "it ranked these architectures best"
    else:
        reason = f"it ranked these architectures significantly better than {default.proxy}"
    return f"Search with {loadable_name or best}: {reason}."


def _get_spearman(result: ProxyResult) -> float:
    estimate = result.statistics["spearman"]
    return estimate.value if estimate else -1.0


def _spread_over_sizes(records: Sequence[Record], count: int) -> list[Arch]:
    """Choose architectures of evenly spaced ranks by size, including the smallest and largest."""
    measured = [record for record in records if record.value is not None]
    by_size = sorted(measured, key=lambda record: (record.value, str(record.arch)))
    if len(by_size) <= count:
        return [record.arch for record in by_size]
    last = len(by_size) - 1
    archs = []
    for step in range(count):
        index = round(step * last / (count - 1))
        archs.append(by_size[index].arch)
    return archs


def _describe_certainty(results: Sequence[ProxyResult], count: int, target: str) -> str:
    """Describe how certain the result is: how many proxies may be as good as the best.

    Args:
        results: All results, best first.
        count: Number of trainings.
        target: What the trainings are evaluated by: accuracy, AUC or R2.
    """
    estimates = []
    for result in results:
        estimate = result.statistics["spearman"]
        if estimate:
            estimates.append((result.proxy, estimate))
    if not estimates:
        return (
            f"All trainings reached the same {target}, so proxies cannot be compared: "
            "train longer, or on harder data."
        )
    best_name, best = estimates[0]
    others = estimates[1:]
    similar = [name for name, estimate in others if not best.has_disjoint_interval(estimate)]
    reason = "the intervals are wide"
    if best.low is None:
        reason = f"{best_name} has no interval"
    text = (
        f"With {count} trainings {reason}: {len(similar)} of the other {len(others)} "
        f"do not differ significantly from {best_name}."
    )
    if len(similar) == len(others):
        return f"{text} More trainings are needed to say which proxy to trust."
    return (
        f"{text} Proxies far below it should not be trusted on these data; "
        "these trainings cannot tell whether proxies close to it are as good."
    )
