"""Write a run as an Optuna study, for optuna-dashboard and Optuna's own plots.

The package Optuna is optional: it is imported only when a study is written.
"""

import sqlite3
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from untrained.errors import UsageError
from untrained.files import replace_atomically
from untrained.names import require_trusted_code
from untrained.runs.folder import RunFolder
from untrained.runs.ranking import compute_fitnesses
from untrained.runs.store_files import open_store
from untrained.runs.winner import RunRanking, rank_run, read_records
from untrained.spaces import Space, load_space
from untrained.spaces.core.choices import ChoiceOptions, Options, make_replay_chooser
from untrained.spaces.core.ranges import FloatRange, IntRange
from untrained.types import Arch, Choice, Failure, Genes, Record, remove_version

SUFFIX = ".db"

Attribute = float | str


@dataclass(frozen=True)
class Objective:
    """One objective of a study.

    Attributes:
        name: Name and options of the proxy.
        higher_is_better: The direction.
        values: Mean over the seeds of every architecture that has a value.
    """

    name: str
    higher_is_better: bool
    values: Mapping[Arch, float]


def export_study(path: str | Path, out: str | Path) -> int:
    """Write a run as an Optuna study in a SQLite file. The file appears when it is complete.

    Every architecture is a trial, in the order in which the run requested them:

    - Its choices are categorical parameters, its ranges integer or float parameters. The options
      come from the space. If the space is the user's code and may not be run, all parameters are
      categorical, with the values that occur in the run.
    - It is COMPLETE if it is ranked, FAIL with the attribute `failure` if it could not be ranked,
      and PRUNED if the ranking proxy did not score it, as after a screening.
    - The scores of all proxies are user attributes.

    Args:
        path: The run folder, or the store in it.
        out: The file to write; it ends in .db. An existing file is replaced.

    Returns:
        The number of trials.

    Raises:
        UsageError: Optuna is not installed, the run has no records, or the file cannot be written.
    """
    optuna = _import_optuna()
    out = Path(out)
    if out.suffix != SUFFIX:
        raise UsageError(f"{out} cannot be an Optuna study; use a name that ends in {SUFFIX}")
    with open_store(path) as store:
        if out.resolve() == store.path.resolve():
            raise UsageError(f"{out} is the store of the run; choose another file")
        run = RunFolder.read(store.path.parent)
        run_ranking = rank_run(run, read_records(run, store))
    if not run_ranking.records:
        raise UsageError(f"{path} has no records, so there is nothing to write")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(out) as part:
            return _write_study(optuna, part, run, run_ranking)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error}") from error


def _import_optuna() -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise UsageError("--as optuna needs the package optuna: pip install optuna") from error
    # Optuna is an optional package, so mypy does not follow this import.
    module: ModuleType = optuna
    return module


def _write_study(optuna: ModuleType, file: Path, run: RunFolder, run_ranking: RunRanking) -> int:
    """Write the study to a file and return the number of trials."""
    records = run_ranking.records
    archs = list(dict.fromkeys(record.arch for record in records))
    parameters = {arch: list_parameters(arch) for arch in archs}
    occurring_values = collect_values(parameters.values())
    known_options = read_options(run, archs)
    distributions = {}
    for name, occurring in occurring_values.items():
        options = known_options.get(name, ChoiceOptions())
        distributions[name] = _make_distribution(optuna, options, occurring)
    objectives = list_objectives(run, run_ranking)
    trials = _make_trials(optuna, run_ranking, parameters, distributions, objectives)

    def connect() -> sqlite3.Connection:
        # A path inside a URL would need quoting. An incomplete file is deleted, so there is no need
        # to wait for the disk after every trial.
        connection = sqlite3.connect(file, check_same_thread=False)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = None
    try:
        storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect})
        study = optuna.create_study(
            storage=storage,
            study_name=run.folder.resolve().name,
            directions=[_get_direction(objective) for objective in objectives],
        )
        with warnings.catch_warnings():
            # Names of objectives are experimental in Optuna.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([objective.name for objective in objectives])
        study.set_user_attr("space", run.config.space)
        study.set_user_attr("data", run.config.data)
        study.set_user_attr("command", run.to_command())
        study.add_trials(trials)
    finally:
        optuna.logging.set_verbosity(verbosity)
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()
    return len(trials)


def _make_trials(
    optuna: ModuleType,
    run_ranking: RunRanking,
    parameters: Mapping[Arch, Genes],
    distributions: Mapping[str, object],
    objectives: Sequence[Objective],
) -> list[object]:
    """Return one trial per architecture, in the order of `parameters`."""
    attributes = collect_attributes(run_ranking.records)
    failures = dict(run_ranking.ranking.failed)
    trials = []
    for arch, genes in parameters.items():
        trial_attributes = {"arch": str(arch), **attributes[arch]}
        values = None
        if arch in failures:
            state = optuna.trial.TrialState.FAIL
            trial_attributes["failure"] = str(failures[arch])
        elif arch in objectives[0].values:
            state = optuna.trial.TrialState.COMPLETE
            values = [objective.values[arch] for objective in objectives]
        else:
            state = optuna.trial.TrialState.PRUNED
            trial_attributes["not_scored_by"] = objectives[0].name
        trial_parameters = dict(genes)
        trial = optuna.trial.create_trial(
            state=state,
            values=values,
            params=trial_parameters,
            distributions={name: distributions[name] for name in trial_parameters},
            user_attrs=trial_attributes,
        )
        trials.append(trial)
    return trials


def _get_direction(objective: Objective) -> str:
    if objective.higher_is_better:
        return "maximize"
    return "minimize"


def list_parameters(arch: Arch) -> Genes:
    """Return the choices of an architecture; if it has none, its text as the choice `arch`."""
    return arch.genes or (("arch", str(arch)),)


def collect_values(parameters: Iterable[Genes]) -> dict[str, list[Choice]]:
    """Return the values that occur in the run, sorted, by name of the parameter."""
    # The keys of the inner dictionaries are an ordered set.
    values_by_name: dict[str, dict[Choice, None]] = {}
    for genes in parameters:
        for name, value in genes:
            values_by_name.setdefault(name, {})[value] = None
    return {name: _sort_values(values) for name, values in values_by_name.items()}


def _sort_values(values: Iterable[Choice]) -> list[Choice]:
    """Return numbers in order, then texts."""
    numbers = [value for value in values if not isinstance(value, str)]
    texts = [value for value in values if isinstance(value, str)]
    return [*sorted(numbers), *sorted(texts)]


def read_options(run: RunFolder, archs: Iterable[Arch]) -> dict[str, Options]:
    """Return the options of the choices of a run, by name.

    Args:
        run: The run. A space in a file of the user is loaded only if the user has named the file
            on this machine before.
        archs: The architectures of the run.

    Returns:
        The options of every choice; empty if the space may not be loaded.
    """
    try:
        command = f"untrained store export {run.folder}"
        require_trusted_code(run.config.space, run.space_code or None, str(run.folder), command)
        space = load_space(run.config.space)
        return _collect_options(space, archs)
    except UsageError:
        return {}


def _collect_options(space: Space, archs: Iterable[Arch]) -> dict[str, Options]:
    options_by_name: dict[str, Options] = {}

    def is_known(name: str, value: Choice) -> bool:
        return name in options_by_name and options_by_name[name].find(value) == value

    for arch in archs:
        # Replaying the choices takes time, so it is done only if a choice or a value is new.
        if all(is_known(name, value) for name, value in arch.genes):
            continue
        for decision in space.list_decisions(make_replay_chooser(arch.genes, str(arch))):
            options = decision.options
            if decision.name in options_by_name:
                options = join_options(options_by_name[decision.name], options)
            options_by_name[decision.name] = options
    return options_by_name


def _join_int_ranges(first: IntRange, second: IntRange) -> IntRange:
    step: float | None = 1
    if first.step == second.step and first.low == second.low:
        step = first.step
    low = min(first.low, second.low)
    high = max(first.high, second.high)
    return IntRange(low, high, step, first.log and second.log)


def _join_float_ranges(first: FloatRange, second: FloatRange) -> FloatRange:
    step = None
    if first.step == second.step and first.low == second.low:
        step = first.step
    low = min(first.low, second.low)
    high = max(first.high, second.high)
    return FloatRange(low, high, step, first.log and second.log)


def join_options(first: Options, second: Options) -> Options:
    """Return options that contain both sets of options of one choice.

    A choice has several sets of options if they depend on earlier choices.
    """
    if isinstance(first, IntRange) and isinstance(second, IntRange):
        return _join_int_ranges(first, second)
    if isinstance(first, FloatRange) and isinstance(second, FloatRange):
        return _join_float_ranges(first, second)
    # No set of options describes both a list and a range, so only the listed values are kept.
    values: dict[Choice, None] = {}
    for options in (first, second):
        if isinstance(options, ChoiceOptions):
            values.update(dict.fromkeys(options.list_representative_values()))
    return ChoiceOptions(values)


def _make_distribution(optuna: ModuleType, options: Options, values: Sequence[Choice]) -> object:
    """Return Optuna's description of a parameter.

    Args:
        optuna: The package.
        options: The options of the choice; empty if they are not known.
        values: The values that occur.
    """
    distributions = optuna.distributions
    if isinstance(options, ChoiceOptions) or any(options.find(value) is None for value in values):
        all_values = list(values)
        if isinstance(options, ChoiceOptions):
            all_values += options.list_representative_values()
        return distributions.CategoricalDistribution(_sort_values(dict.fromkeys(all_values)))
    if isinstance(options, IntRange):
        step = int(options.step or 1)
        return distributions.IntDistribution(int(options.low), options.last, options.log, step)
    return distributions.FloatDistribution(options.low, options.last, options.log, options.step)


def list_objectives(run: RunFolder, run_ranking: RunRanking) -> list[Objective]:
    """Return the objectives of a study: the ranking proxy, then those that it is weighed against.

    The latter are the other objectives of the strategy, the number of parameters and the latency.
    A complete trial of Optuna needs a value for every objective. An objective that is not known for
    every ranked architecture is therefore left out; its values are still user attributes.
    """
    proxies = {record.measure: record.proxy for record in run_ranking.records}
    scores = {standing.arch: standing.score for standing in run_ranking.ranking.standings}
    # If no architecture has a score, the records may lack the measure.
    ranking_proxy = proxies.get(run.measure, remove_version(run.measure))
    objectives = [Objective(ranking_proxy, run.higher_is_better, scores)]

    directions: dict[str, bool] = {}
    for row in run.objectives:
        directions[row["measure"]] = row["higher_is_better"]
    latency_measures = []
    for measure, proxy in proxies.items():
        if proxy == "params":
            directions.setdefault(measure, False)
        if measure.startswith("latency("):
            latency_measures.append(measure)
    directions.pop(run.measure, None)
    for measure, higher_is_better in directions.items():
        means = _compute_means(run_ranking.records, measure)
        if measure in proxies and means.keys() >= scores.keys():
            objectives.append(Objective(proxies[measure], higher_is_better, means))

    # The best networks are measured twice, the second time with more forward passes. One latency
    # is enough: the second one, if it is known for all.
    for measure in reversed(latency_measures):
        means = _compute_means(run_ranking.records, measure)
        if measure not in directions and means.keys() >= scores.keys():
            objectives.append(Objective(proxies[measure], False, means))
            break
    return objectives


def _compute_means(records: Iterable[Record], measure: str) -> dict[Arch, float]:
    """Return the mean over the seeds of every architecture without a failure."""
    # The fitness is the mean itself if higher is better.
    fitnesses = compute_fitnesses(records, measure, higher_is_better=True)
    return {arch: value for arch, value in fitnesses.items() if value is not None}


def collect_attributes(records: Sequence[Record]) -> dict[Arch, dict[str, Attribute]]:
    """Return the scores of every architecture by proxy, failures of single proxies, and the cost.

    A score is the mean over the seeds. If a seed failed, there is no score, and the attribute
    `PROXY failure` says why.
    """
    attributes: dict[Arch, dict[str, Attribute]] = {}
    seconds: dict[Arch, float] = {}
    first_failures: dict[tuple[Arch, str], Failure] = {}
    for record in records:
        attributes.setdefault(record.arch, {})
        cost = record.build_seconds + record.transfer_seconds + record.measure_seconds
        seconds[record.arch] = seconds.get(record.arch, 0.0) + cost
        if record.error:
            first_failures.setdefault((record.arch, record.proxy), record.error)
    proxies = {record.measure: record.proxy for record in records}
    for measure, proxy in proxies.items():
        for arch, mean in _compute_means(records, measure).items():
            attributes[arch][proxy] = mean
    for (arch, proxy), failure in first_failures.items():
        attributes[arch][f"{proxy} failure"] = str(failure)
    for arch, total in seconds.items():
        attributes[arch]["seconds"] = total
    return attributes
