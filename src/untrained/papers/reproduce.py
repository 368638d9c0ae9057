"""Run an experiment, and list all experiments with the result of their last run."""

import re
from dataclasses import replace
from pathlib import Path

from untrained.benchmarks import open_table
from untrained.benchmarks.comparison import parse_failure_rule
from untrained.command_text import format_options
from untrained.config import ComputeConfig
from untrained.engine.devices import parse_device_name
from untrained.errors import UsageError
from untrained.formatting import format_now
from untrained.papers.commit import read_commit
from untrained.papers.experiment import EXPERIMENTS, ExperimentConfig, Findings
from untrained.papers.recorded_scores import RecordedScores
from untrained.papers.samples import MIN_SAMPLES
from untrained.papers.stopwatch import Stopwatch
from untrained.progress import ProgressCallback
from untrained.quantities import check_count, check_optional_count, parse_path
from untrained.reports.reproduction_result import RESULT_FILE, ReproductionResult
from untrained.runs.folder import read_versions


def reproduce(
    experiment: str,
    *,
    samples: int | None = None,
    seeds: int | None = None,
    batch: int | None = None,
    device: str = "cpu",
    workers: int | None = None,
    ray: str | None = None,
    time_limit: str | None = None,
    run: str | Path | None = None,
    store: str | Path | None = None,
    scores: str | Path | None = None,
    only_recorded: bool = False,
    failures: str = "omit",
    data_root: str | Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> ReproductionResult:
    """Reproduce a table or figure of a paper and compare its numbers with the published ones.

    The folder keeps all measurements, so the same call resumes an interrupted one.

    Args:
        experiment: Its name, such as `dextr-table-1`.
        samples: Number of architectures; by default that of the experiment.
        seeds: Number of initialisations and batches; by default that of the experiment.
        batch: Largest number of samples that a network sees, for a quick trial.
        device: Device of the networks, such as `cpu` or `cuda`.
        workers: Number of worker processes.
        ray: Address of a Ray cluster that does the work.
        time_limit: Time limit per score, such as `30s`.
        run: Folder of the results; `runs/reproduce-NAME` by default.
        store: SQLite file of the scores, which several experiments may share; by default that in
            the folder of the results.
        scores: Parquet file of scores that `untrained store export` wrote, perhaps on another
            machine, or a folder of such files. Scores that it holds are not measured.
        only_recorded: Measure nothing: use only architectures with scores in the file `scores`;
            proxies without scores in it have no value.
        failures: `omit` to leave architectures without a score out of correlations, as everywhere
            else in the package, or `last` to rank them last.
        data_root: Folder of the tables and images.
        on_progress: Called with every progress event.

    Returns:
        The numbers, saved in the folder as JSON, CSV and Markdown.

    Raises:
        UsageError: There is no such experiment, an argument is invalid, or a table is missing.

    Example:
        The tables must have been imported with `untrained data import`.

        >>> import untrained as ut
        >>> result = ut.reproduce("nasi-figure-3", samples=3, batch=2, run="runs/figure-3")
        >>> len(result.lines) > 0
        True
    """
    definition = EXPERIMENTS[experiment]
    sample_count = check_count(
        definition.samples if samples is None else samples, "samples", MIN_SAMPLES
    )
    seed_count = check_count(definition.seeds if seeds is None else seeds, "seeds")
    batch = check_optional_count(batch, "batch")
    device = parse_device_name(device)
    if run is not None:
        run = parse_path(run, "run")
    failure_rule = parse_failure_rule(failures)
    if only_recorded and not scores:
        raise UsageError("--only-recorded reads the scores of a file; name it with --scores")
    compute = ComputeConfig(device, workers, ray, time_limit)
    # A missing table is reported before anything is measured.
    for table in definition.needs:
        open_table(table, data_root)
    folder = Path(run) if run else get_default_folder(experiment)
    stopwatch = Stopwatch(folder, on_progress)
    recorded = RecordedScores.read(parse_path(scores, "scores")) if scores else None
    config = ExperimentConfig(
        samples=sample_count,
        seeds=seed_count,
        folder=folder,
        compute=compute,
        batch=batch,
        store=parse_path(store, "store") if store else None,
        recorded=recorded,
        only_recorded=only_recorded,
        failures=failure_rule,
        data_root=data_root,
        on_progress=stopwatch.report_progress,
    )
    findings = definition.run(config)
    stopwatch.write()
    lines = []
    for line in findings.lines:
        if line.better is None:
            line = replace(line, better=definition.better)
        lines.append(line)
    # Defaults are left out, and so are options that belong to this machine: store, data root,
    # workers and time limit.
    arguments: dict[str, object] = {
        "samples": samples,
        "seeds": seeds,
        "batch": batch,
        "device": device,
        "run": run,
        "scores": scores,
        "failures": failures,
    }
    command = f"untrained reproduce {experiment} {format_options(reproduce, arguments)}".rstrip()
    if only_recorded:
        command += " --only-recorded"
    result = ReproductionResult(
        experiment=experiment,
        paper=definition.paper,
        title=definition.title,
        about=definition.about,
        unit=definition.unit,
        lines=tuple(lines),
        deviations=_list_deviations(config, findings),
        plots=findings.plots,
        command=command,
        settings=_list_settings(config),
        versions=read_versions(),
        commit=read_commit(),
        seconds=stopwatch.seconds,
        made_on=format_now(),
        folder=str(folder),
    )
    return result.save()


def _list_settings(config: ExperimentConfig) -> dict[str, str]:
    """Return the size and the device of an experiment, as its page shows them."""
    settings = {
        "samples": f"{config.samples:,}",
        "seeds": str(config.seeds),
        "device": config.compute.device,
    }
    if config.batch:
        settings["batch"] = str(config.batch)
    if config.failures == "last":
        settings["failures"] = config.failures
    if config.recorded:
        settings["scores"] = config.recorded.path.name
    if config.only_recorded:
        settings["device"] = "recorded"
    return settings


def _list_deviations(config: ExperimentConfig, findings: Findings) -> tuple[str, ...]:
    """Return the deviations from the paper: those of the experiment, and those by its options."""
    deviations = list(findings.deviations)
    if config.failures == "last":
        deviations.append("Architectures without a score rank last.")
    if config.recorded:
        deviations.append(config.recorded.describe_use())
    # Empty sentences are dropped, and each sentence is kept once.
    return tuple(dict.fromkeys(filter(None, deviations)))


def get_default_folder(experiment: str) -> Path:
    """Return the default folder of an experiment."""
    return Path("runs", f"reproduce-{experiment}")


def list_experiments() -> list[dict[str, object]]:
    """Return a description of every experiment and the result of its last run.

    Names are sorted naturally, so table 2 comes before table 10.
    """
    rows = []
    for name in sorted(EXPERIMENTS, key=_make_sort_key):
        experiment = EXPERIMENTS[name]
        facts = {
            "name": name,
            "paper": experiment.paper,
            "title": experiment.title,
            "about": experiment.about,
            "needs": list(experiment.needs),
        }
        rows.append(facts | _describe_last_run(name))
    return rows


def _make_sort_key(name: str) -> list[int | str]:
    # Split into text and digits: hnas-table-, 10.
    parts = re.split(r"(\d+)", name)
    return [int(part) if part.isdecimal() else part for part in parts]


def _describe_last_run(experiment: str) -> dict[str, object]:
    folder = get_default_folder(experiment)
    if not (folder / RESULT_FILE).is_file():
        return {"state": "never run", "made_on": "", "largest_difference": None, "folder": ""}
    try:
        result = ReproductionResult.read(folder)
    except UsageError as error:
        # A damaged file must not prevent the list.
        return {
            "state": str(error),
            "made_on": "",
            "largest_difference": None,
            "folder": str(folder),
        }
    line = result.worst_line
    state = "no published numbers"
    difference = None
    if line:
        difference = line.difference
        state = f"largest difference: {difference:+.3g} ({line.what})"
    return {
        "state": state,
        "made_on": result.made_on,
        "largest_difference": difference,
        "folder": str(folder),
    }
