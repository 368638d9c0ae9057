"""`bench(...)`: compare proxies with known results.

All proxies score the same architectures, failures are counted, baselines are always included, and
every statistic has a confidence interval if there are enough architectures. Records are kept in a
run folder: the same call resumes, and a call with more samples measures only the new architectures.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from untrained.benchmarks.comparison import (
    ProxyScores,
    collect_scores,
    collect_sizes,
    compare_with_truth,
    describe_baseline_on_scored_archs,
    find_failure_example,
    parse_failure_rule,
    rank_failures_last,
    sort_results,
)
from untrained.benchmarks.noise_ceiling import describe_repeated_rows, measure_noise_ceiling
from untrained.benchmarks.result import BenchmarkResult
from untrained.benchmarks.table import BenchmarkTable
from untrained.command_text import format_options
from untrained.config import DEFAULT_PROXY, ComputeConfig, ComputeOptions
from untrained.data import DataSource, set_input_size
from untrained.data.samples import DATASET_NAME
from untrained.engine.devices import parse_device_name
from untrained.engine.worker import index_proxies
from untrained.engine.worker_setup import WeightSource
from untrained.errors import UsageError
from untrained.files import write_atomically
from untrained.formatting import format_now
from untrained.names import split_names
from untrained.progress import ProgressCallback
from untrained.proxies import Proxy, load_proxy, parse_proxy_names
from untrained.proxies.consensus import MEMBERS
from untrained.quantities import check_count, check_seed, parse_path, show_value
from untrained.runs.folder import STORE, make_folder_name, read_versions
from untrained.spaces import Space, get_name_or_space, get_space_name, load_space
from untrained.training.warm_up import WarmUp
from untrained.types import Arch, Record
from untrained.workflows.arguments import check_option_names, check_space_argument
from untrained.workflows.combination import combine_proxies
from untrained.workflows.ground_truth import (
    GroundTruth,
    load_benchmark_data,
    load_ground_truth,
    load_user_ground_truth,
)
from untrained.workflows.score_architectures import score_architectures
from untrained.workflows.search_checks import check_data

if TYPE_CHECKING:
    import pandas as pd

# Copy of a table from Python, in the run folder, so that the command can be repeated.
TABLE_FILE = "table.csv"
BASELINES = ("params", "flops", "random")
# Results of this space come with the package, so that `bench()` works on every machine.
DEFAULT_SPACE = "convnet"
DEFAULT_PROXIES = ",".join((DEFAULT_PROXY, *MEMBERS, "dextr"))


def bench(
    space: str | Space = DEFAULT_SPACE,
    proxy: str | Proxy | Sequence[str | Proxy] | None = None,
    dataset: str | None = None,
    *,
    table: "str | Path | pd.DataFrame | None" = None,
    benchmark: str | None = None,
    metric: str | None = None,
    samples: int = 1000,
    seed: int = 0,
    seeds: int = 1,
    scores: str = "",
    data: object = None,
    warm_up: str = "",
    failures: str = "omit",
    device: str = "cpu",
    run: str | Path | None = None,
    data_root: str | Path | None = None,
    input_size: int | None = None,
    on_progress: ProgressCallback | None = None,
    **compute_options: Unpack[ComputeOptions],
) -> BenchmarkResult:
    """Measure how well proxies rank architectures whose accuracy is known.

    Args:
        space: A space, or its name; with `table` also one of your own, such as "./mine.py:mynet".
            Results of `convnet` and `vit` come with this package.
        proxy: Proxies, or their names, which may be separated by commas; "all" for all of them;
            None for `consensus`, its members and `dextr`.
        dataset: Data set of the known accuracies; None for the first one of the table.
        table: Results of your own instead of a benchmark: a CSV or parquet file, or a pandas
            DataFrame, with columns `arch` and `accuracy`. Other columns of numbers are metrics too.
            Several rows of an architecture are seeds; their mean is the known result.
        benchmark: Name of the benchmark; None for the default one of the space.
        metric: Full name of the metric to compare with; None for the test accuracy after the
            longest training, or for the column `accuracy` of `table`.
        samples: Number of architectures, drawn from the table by `seed`.
        seed: First seed of weights and batches, and seed of the sample.
        seeds: Number of seeds per architecture.
        scores: Published scores in the table to compare too: "table:synflow".
        data: Data that networks see, as for `search`; None for those of `dataset` if they are
            available.
        warm_up: Train on a share of the data before scoring: "10%" trains the supernet of the
            space, "10%(paths=each)" each architecture on its own.
        failures: How statistics treat architectures without a score: "omit" leaves them out, "last"
            ranks them last.
        device: A torch device.
        run: The run folder; None for one under `runs/` that is named after the benchmark.
        data_root: Folder that contains the data sets and tables.
        input_size: Height and width of the images that networks see, if other than in the table.
            Networks for images of 224 pixels are scored much faster on smaller ones.
        on_progress: Called after every architecture.
        **compute_options: `workers`, `ray`, `time_limit` and `networks_per_batch`, see
            `ComputeConfig`.

    Returns:
        One result per proxy, best first. It is also saved in the run folder.

    Raises:
        UsageError: An argument is invalid, or the table has not been imported.

    Example:
        >>> import untrained as ut
        >>> result = ut.bench("convnet", "naswot", samples=10, data="noise")
        >>> sorted(row["proxy"] for row in result.rows())
        ['flops', 'naswot', 'params', 'random']
    """
    check_option_names(bench, compute_options, ComputeOptions.__annotations__)
    check_space_argument(space)
    # Load the space first, to report a wrong name before any work.
    load_space(space)
    named_space = get_name_or_space(space)
    space_name = get_space_name(named_space)
    samples = check_count(samples, "samples", 3)
    seeds = check_count(seeds, "seeds")
    seed = check_seed(seed, seeds)
    device = parse_device_name(device)
    if run is not None:
        run = parse_path(run, "run")
    failure_rule = parse_failure_rule(failures)
    compute = ComputeConfig(device=device, **compute_options)
    requested_proxies = parse_requested_proxies(DEFAULT_PROXIES if proxy is None else proxy)
    proxies = load_proxies_and_baselines(requested_proxies)
    if table is None:
        if not isinstance(named_space, str):
            raise UsageError(
                f"no published table has results for your own space {space_name}; "
                "pass your results: table='results.csv'"
            )
        truth = load_ground_truth(named_space, benchmark, dataset, metric, samples, seed, data_root)
    else:
        _refuse_options_of_benchmarks(benchmark, dataset, scores)
        truth = load_user_ground_truth(named_space, table, metric, samples, seed)
    truth = replace(truth, task=set_input_size(truth.task, input_size))
    data_name, source, data_note = load_benchmark_data(data, truth, data_root)
    if table is not None:
        check_data(load_space(named_space), source.task)
    if run:
        folder = Path(run)
    else:
        folder = _make_default_folder(
            truth, space_name, data_name, input_size, seed, device, warm_up
        )
    seed_range = range(seed, seed + seeds)
    weights = None
    if warm_up:
        weights = _prepare_weights(warm_up, truth, source, seed, device, folder, on_progress)

    scoring_result = score_architectures(
        truth.named_space,
        truth.archs,
        proxies,
        source,
        seed_range,
        compute,
        folder / STORE,
        map_measures_to_names(requested_proxies),
        on_progress,
        weights=weights,
    )
    columns = []
    for loaded_proxy in proxies:
        column = collect_proxy_scores(loaded_proxy, scoring_result.records, truth.archs, seed_range)
        if failure_rule == "last":
            by_seed = rank_failures_last(column.by_seed, loaded_proxy.higher_is_better)
            column = replace(column, by_seed=tuple(by_seed))
        columns.append(column)
    columns += combine_proxies(columns)
    for name in split_names(scores):
        columns.append(_read_published_scores(truth, name))
    sizes = collect_sizes(columns)
    results = sort_results(
        compare_with_truth(column, truth.values, sizes=sizes) for column in columns
    )

    ceiling = measure_noise_ceiling(truth.table, truth.metric, truth.archs)
    table_path = _find_table_path(table, folder)
    notes = [
        describe_baseline_on_scored_archs(results, truth.values),
        describe_repeated_rows(truth.table, truth.metric) if table is not None else "",
        ceiling.describe() if ceiling else "",
        _describe_direction(truth) if table is not None else "",
        _describe_table(truth.table),
        data_note,
    ]
    options: dict[str, object] = {
        "space": space_name,
        "proxy": None if proxy is None else format_proxies(proxy),
        "table": table_path,
        "dataset": dataset,
        "benchmark": benchmark,
        "metric": metric,
        "samples": samples,
        "seed": seed,
        "seeds": seeds,
        "scores": scores,
        "data": None if data is None else data_name,
        "input_size": input_size,
        "device": device,
        "warm_up": warm_up,
        "failures": failures,
        "run": str(folder),
    }
    settings = {
        "samples": f"{len(truth.archs):,}",
        "data": data_name,
        "seed": str(seed),
        "device": device,
    }
    if input_size is not None:
        settings["input size"] = f"{input_size} pixels"
    if warm_up:
        settings["warm-up"] = warm_up
    if failure_rule == "last":
        settings["without a score"] = "ranked last"
    cost = {}
    if weights and weights.seconds:
        cost["warm-up"] = weights.seconds
    cost["total"] = scoring_result.seconds + sum(cost.values())
    command = ""
    # A command cannot name objects in Python.
    if data_name != DATASET_NAME:
        command = f"untrained bench {format_options(bench, options)}"
    result = BenchmarkResult(
        title=f"{truth.table.name}: {truth.about}",
        command=command,
        space=truth.space,
        truth_about=f"{truth.about}, {truth.table.name}",
        truth_unit=truth.metric.unit,
        archs=tuple(str(arch) for arch in truth.archs),
        truth=truth.values,
        proxy_results=results,
        notes=tuple(note for note in notes if note),
        settings=settings,
        versions=read_versions(),
        cost=cost,
        batched=scoring_result.batched_networks,
        seeds=seeds,
        folder=str(folder),
        made_on=format_now(),
    )
    return result.save()


def _refuse_options_of_benchmarks(benchmark: str | None, dataset: str | None, scores: str) -> None:
    """Refuse options that only a published benchmark has.

    Raises:
        UsageError: One of them is given together with a table of the user.
    """
    options = {"--benchmark": benchmark, "--dataset": dataset, "--scores": scores}
    for option, value in options.items():
        if value:
            raise UsageError(
                f"--table and {option} exclude each other: {option} is about published tables; "
                "leave one of them out"
            )


def _find_table_path(table: "str | Path | pd.DataFrame | None", folder: Path) -> str | None:
    """Return the file of a user's table; a DataFrame is saved in the run folder."""
    if table is None:
        return None
    if isinstance(table, str | Path):
        return str(table)
    path = folder / TABLE_FILE
    write_atomically(path, table.to_csv(index=False))
    return str(path)


def _describe_table(table: BenchmarkTable) -> str:
    """Return a note on the content of a table and, if it is our own, on how it was made."""
    note = f"The table contains {table.about}."
    recipe = table.origin.get("recipe")
    if recipe:
        note += f" It comes with untrained: {recipe}."
    return note


def _describe_direction(truth: GroundTruth) -> str:
    """Return a note on which values of a user's metric are better; empty for accuracies."""
    metric = truth.metric
    if metric.kind == "accuracy":
        return ""
    direction = "Higher" if metric.higher_is_better else "Lower"
    return f"{direction} values of {metric.kind} count as better."


def parse_requested_proxies(proxies: object) -> list[str | Proxy]:
    """Return the proxies that a user requested as a list of names and `Proxy` objects.

    Args:
        proxies: Names separated by commas, a `Proxy`, or a list of both. "all" also contains the
            default proxy of a search, which is an aggregate of others.

    Raises:
        UsageError: The argument is something else.
    """
    if isinstance(proxies, Proxy):
        return [proxies]
    if isinstance(proxies, str):
        proxies = [proxies]
    if not isinstance(proxies, Sequence):
        raise UsageError(
            f"{show_value(proxies)} is not a list of names; give them as text, such as "
            "'params,naswot'"
        )
    requested: list[str | Proxy] = []
    for proxy in proxies:
        if not isinstance(proxy, str):
            requested.append(proxy)
            continue
        requested += parse_proxy_names(proxy)
        if proxy.strip() == "all":
            requested.append(DEFAULT_PROXY)
    return requested


def format_proxies(proxies: object) -> str:
    """Return proxies as text for the command line. A proxy of the user is named by its label."""
    if isinstance(proxies, str):
        return proxies
    names = []
    for proxy in parse_requested_proxies(proxies):
        names.append(proxy if isinstance(proxy, str) else proxy.label)
    return ",".join(names)


def load_proxies_and_baselines(requested: Sequence[str | Proxy]) -> list[Proxy]:
    """Load proxies and the baselines, each of them once."""
    proxies = [load_proxy(name) for name in (*requested, *BASELINES)]
    return list(index_proxies(proxies).values())


def map_measures_to_names(requested: Sequence[str | Proxy]) -> dict[str, str]:
    """Return the names of proxies as the user typed them, by measure."""
    names = {}
    for name in requested:
        if isinstance(name, str):
            names[load_proxy(name).measure] = name
    return names


def collect_proxy_scores(
    proxy: Proxy, records: Sequence[Record], archs: Sequence[Arch], seeds: Sequence[int]
) -> ProxyScores:
    """Collect the scores and failures of a proxy, with its description.

    Args:
        proxy: The proxy.
        records: Records of this proxy and perhaps of others.
        archs: The architectures, in the order of the scores.
        seeds: The seeds, in the same order.
    """
    by_seed, failure_counts = collect_scores(records, proxy.measure, archs, seeds)
    kind = "proxy"
    if proxy.name in BASELINES:
        kind = "baseline"
    elif proxy.parts:
        kind = "combination"
    return ProxyScores(
        proxy=proxy.label,
        about=proxy.about,
        kind=kind,
        higher_is_better=proxy.higher_is_better,
        by_seed=by_seed,
        cost=proxy.cost,
        failures=failure_counts,
        failure_example=find_failure_example(records, proxy.measure),
    )


def _read_published_scores(truth: GroundTruth, name: str) -> ProxyScores:
    """Read the published scores of a proxy in the table. Several runs of it count as seeds."""
    table = truth.table
    proxy = name.removeprefix("table:")
    runs = []
    for score in table.scores:
        if score.proxy == proxy and score.dataset == truth.metric.dataset:
            runs.append(score)
    if not runs:
        runs = [table.find_score(proxy)]
    by_seed = []
    for score in runs:
        values = table.read_values(truth.archs, score)
        by_seed.append(tuple(None if isnan(value) else float(value) for value in values))
    first = runs[0]
    return ProxyScores(
        proxy=f"table:{proxy}",
        about=f"{proxy} by {first.source or 'others'}, from the table",
        kind="other",
        higher_is_better=first.higher_is_better,
        by_seed=tuple(by_seed),
        partial=True,
    )


def _make_default_folder(
    truth: GroundTruth,
    space_name: str,
    data: str,
    input_size: int | None,
    seed: int,
    device: str,
    warm_up: str,
) -> Path:
    """Return the default run folder, which is named after all settings that change the records."""
    words = ["bench", truth.table.name, truth.metric.name, data]
    is_own_table = truth.table.size is None and truth.table.name != space_name
    if is_own_table or "(" in space_name:
        # Tables of the user for different spaces may have the same file name, and a space with
        # other options has other networks.
        words.insert(1, space_name)
    if input_size is not None:
        words.append(f"{input_size}px")
    if seed != 0:
        words.append(f"seed{seed}")
    if device != "cpu":
        words.append(device)
    if warm_up:
        words.append(f"warm-{warm_up}")
    return Path("runs", make_folder_name(*words))


def _prepare_weights(
    warm_up: str,
    truth: GroundTruth,
    source: DataSource,
    seed: int,
    device: str,
    folder: Path,
    on_progress: ProgressCallback | None,
) -> WeightSource:
    """Train the weights that networks start with, as the option `warm_up` says."""
    plan = WarmUp.parse(warm_up, source)
    folder.mkdir(parents=True, exist_ok=True)
    return plan.prepare_weights(load_space(truth.named_space), seed, device, folder, on_progress)
