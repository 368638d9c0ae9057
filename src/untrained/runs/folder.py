"""The folder of a run: its configuration, the time that it took, and its files.

`run.json` holds a `RunFolder`, `records.sqlite` the store and `report.html` the report. A strategy
that computes between its proposals adds `trace.json`, `prediction.json` and `steps.jsonl`.
"""

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from untrained.command_text import format_options
from untrained.config import DEFAULT_BUDGET, EFFORTS, SearchConfig, TrainingTimeLimit
from untrained.data import SOURCES
from untrained.data.samples import DATASET_NAME
from untrained.errors import UsageError
from untrained.files import find_free_folder, use_run_folder, write_atomically
from untrained.formatting import format_count
from untrained.names import fingerprint_user_code
from untrained.readers.json_file import parse_json
from untrained.runs.step_log import StepLog
from untrained.runs.store import has_records
from untrained.types import ScoreRequest
from untrained.version import __version__

STORE = "records.sqlite"
RUN_FILE = "run.json"
# Bytes of a file name. Most file systems allow 255, and a number may be appended.
_MAX_NAME_BYTES = 240
# Networks per group in the short trainings after a search, on tables and on pictures.
DEFAULT_TABLE_GROUP_SIZE = 5
DEFAULT_CONTEST_GROUP_SIZE = 3
PICTURE_SOURCES = ("folder", "images", "npz")
_PACKAGES = ("torch", "numpy")
# Fields of `RunFolder` that have another name in `run.json`, which old runs contain too.
_STORED_KEYS = {"end_reason": "ended", "limit_results": "limits"}
# Keys that occur only in a `run.json` of an earlier version, which cannot be read.
_FORMER_KEYS = ("settings", "question")
# Parts of the name of a default folder that are left out, because they stand for default values.
_DEFAULT_WORDS = ("seed0", "x1", "cpu")


@dataclass(frozen=True)
class RunFolder:
    """A run, as stored in its `run.json`.

    Attributes:
        folder: Path of the folder.
        config: The configuration of the search, with defaults and names resolved.
        measure: The measure that ranks architectures.
        higher_is_better: The direction of the measure.
        about: A description of the measure for the report.
        objectives: Label, measure and direction of the proxies that the strategy weighs against the
            first one; empty for a strategy with one objective.
        additional: Measures of the proxies of `--also`.
        code: Fingerprint of all user code that the search depends on.
        space_code: Fingerprint of the user code that defines the space.
        space_size: Number of architectures in the space, if it is known.
        search_key: Fingerprint of everything that decides which records the ranking uses, see
            `compute_search_key`.
        wall_seconds: Total time of all sessions.
        warm_up_seconds: The part of `wall_seconds` that was spent on the warm-up of a supernet.
        strategy_seconds: The part of `wall_seconds` that the strategy spent on its own steps.
        end_reason: Why the last session ended.
        training_time_limit: Limit on the proposed architectures, which leaves enough time to train
            the winner; None if there is no such limit.
        limit_results: For each limit, how many architectures it rejected and the value of the best
            one.
        workers: How each worker spent its time, over all sessions.
        versions: Versions of the packages that affect the numbers.
        aggregates: Weights and agreement of each fitted aggregate, see `runs/reference.py`.
        known_designs: Names of the known designs among the candidates, by architecture.
        drawing: The architecture that the report draws, and its diagram. It is stored because
            making a report never runs the user's code.
        data_title: The data in words, such as "photos: 10 classes, 2,000 pictures"; empty if their
            size is not known.
        export: Folder that the command exports the trained winner to; empty if it does not.
        export_recipe: Recipe of the training before the export; empty for the default.
        export_refit: "all" if the exported model is trained on all samples; else empty.
    """

    folder: Path
    config: SearchConfig
    measure: str
    higher_is_better: bool
    about: str
    objectives: list[dict[str, Any]] = field(default_factory=list)
    additional: list[str] = field(default_factory=list)
    code: str = ""
    space_code: str = ""
    space_size: int | None = None
    search_key: str = ""
    wall_seconds: float = 0.0
    warm_up_seconds: float = 0.0
    strategy_seconds: float = 0.0
    end_reason: str = ""
    training_time_limit: TrainingTimeLimit | None = None
    limit_results: list[dict[str, Any]] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    aggregates: list[dict[str, Any]] = field(default_factory=list)
    known_designs: dict[str, str] = field(default_factory=dict)
    drawing: dict[str, Any] | None = None
    data_title: str = ""
    export: str = ""
    export_recipe: str = ""
    export_refit: str = ""

    @classmethod
    def open(
        cls,
        config: SearchConfig,
        *,
        measure: str,
        higher_is_better: bool,
        about: str,
        objectives: Sequence[dict[str, Any]] = (),
        additional: Sequence[str] = (),
        space_size: int | None = None,
    ) -> "RunFolder":
        """Open the folder of a search, new or from an earlier session of the same search.

        This writes nothing.

        Args:
            config: The configuration of the search, with defaults and names resolved.
            measure: The measure that ranks architectures.
            higher_is_better: The direction of the measure.
            about: A description of the measure for the report.
            objectives: Proxies that the strategy weighs against the measure.
            additional: Measures of the proxies of `--also`.
            space_size: Number of architectures in the space, if it is known.

        Raises:
            UsageError: The folder holds another run.
        """
        folder = config.run
        if folder is None:
            folder = choose_default_folder(config, bool(objectives))
        run = cls(
            folder=folder,
            config=config,
            measure=measure,
            higher_is_better=higher_is_better,
            about=about,
            objectives=list(objectives),
            additional=list(additional),
            code=fingerprint_user_code(*config.list_user_code(bool(objectives))),
            space_code=fingerprint_user_code(config.space),
            space_size=space_size,
            versions=read_versions(),
        )
        return run.resume()

    @property
    def store_path(self) -> Path:
        """The SQLite file of the records."""
        return self.folder / STORE

    def has_records(self) -> bool:
        """Whether the store holds records.

        A run that failed before its first record may be overwritten.
        """
        return has_records(self.store_path)

    def resume(self) -> "RunFolder":
        """Return this run with what earlier sessions in the same folder have recorded.

        This includes their times, the costs of their workers, and the known designs. If the folder
        has no `run.json`, or that of a run without records, the run starts from the beginning.

        Raises:
            UsageError: The folder holds records of another run.
        """
        if not (self.folder / RUN_FILE).exists():
            return self
        earlier = RunFolder.read(self.folder)
        if self.describe_requests() != earlier.describe_requests():
            if earlier.has_records():
                changes = self.describe_changes(earlier)
                raise UsageError(
                    f"{self.folder} holds another run, with {changes}; "
                    f"for this one add --run {find_free_folder(self.folder)}"
                )
            # The other run has no records, so this run replaces it and does not take over its cost.
            return self
        return replace(
            self,
            wall_seconds=earlier.wall_seconds,
            warm_up_seconds=earlier.warm_up_seconds,
            strategy_seconds=earlier.strategy_seconds,
            workers=earlier.workers,
            training_time_limit=earlier.training_time_limit,
            known_designs=earlier.known_designs,
            data_title=earlier.data_title,
            # The new search key is known only after the warm-up, which may take long.
            search_key=earlier.search_key,
        )

    def describe_requests(self) -> dict[str, object]:
        """Return everything that decides which records the run requests, except its budget."""
        description = self.config.describe_search()
        # Additional proxies change the search only if the strategy weighs them.
        description["objectives"] = self.config.also if self.objectives else ""
        description["code"] = self.code
        return description

    def compute_search_key(self, requests: Iterable[ScoreRequest]) -> str:
        """Return a fingerprint of everything that decides which records the ranking uses.

        A store may also hold records of other searches: it is kept when the budget or the content
        of the data changes, and other stores can be merged into it. So the store lists which
        records belong to which search key.

        Args:
            requests: The requests for one architecture, which identify proxies, data and weights.

        Returns:
            Sixteen hexadecimal digits.
        """
        config = self.config
        top = None
        if config.stable:
            top = config.top
        other_settings = [
            config.budget,
            config.time,
            config.effort,
            config.stable,
            top,
            config.confirm,
        ]
        keys = [astuple(request.key) for request in requests]
        text = json.dumps([self.describe_requests(), other_settings, keys], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def describe_changes(self, earlier: "RunFolder") -> str:
        """Describe how an earlier run differs, such as "seed 3 (now 0)"."""
        earlier_settings = earlier.describe_requests()
        changes = []
        for name, value in self.describe_requests().items():
            earlier_value = earlier_settings[name]
            if value != earlier_value and name != "code":
                changes.append(f"{name} {earlier_value!r} (now {value!r})")
        # Different files have different names, which are listed above.
        user_code = self.config.list_user_code(bool(self.objectives))
        earlier_user_code = earlier.config.list_user_code(bool(earlier.objectives))
        if self.code != earlier.code and user_code == earlier_user_code:
            files = dict.fromkeys(str(Path(name.rpartition(":")[0])) for name in user_code)
            changes.append(f"an earlier version of {' or '.join(files)}")
        return ", ".join(changes)

    def add_session(
        self,
        workers: Iterable[dict[str, Any]],
        seconds: float,
        end_reason: str,
        warm_up_seconds: float = 0.0,
        step_log: StepLog | None = None,
    ) -> "RunFolder":
        """Return the run after one more session.

        A session that is killed cannot add its time to `wall_seconds`. But it has logged the
        warm-up and the finished steps of the strategy, so the next session adds their time here.

        Args:
            workers: How each worker spent its time, as rows.
            seconds: Time of the session without the warm-up.
            end_reason: Why the session ended.
            warm_up_seconds: Time of the warm-up over all sessions.
            step_log: Steps that the strategy computed; None if it computes none.
        """
        totals = {row["worker"]: row for row in self.workers}
        for row in workers:
            total = dict(row)
            earlier_total = totals.get(row["worker"], {})
            for name, value in row.items():
                if name != "worker":
                    total[name] = value + earlier_total.get(name, 0)
            totals[row["worker"]] = total
        strategy_seconds = self.strategy_seconds
        killed_step_seconds = 0.0  # steps of killed sessions, which `wall_seconds` lacks
        if step_log:
            strategy_seconds = step_log.seconds
            killed_step_seconds = max(0.0, step_log.earlier_seconds - self.strategy_seconds)
        new_warm_up_seconds = warm_up_seconds - self.warm_up_seconds
        return replace(
            self,
            wall_seconds=self.wall_seconds + new_warm_up_seconds + killed_step_seconds + seconds,
            warm_up_seconds=warm_up_seconds,
            strategy_seconds=strategy_seconds,
            workers=list(totals.values()),
            end_reason=end_reason,
        )

    @property
    def stopped_early(self) -> bool:
        """Whether the search was stopped by Ctrl-C or by its time limit.

        The same command then resumes it.
        """
        return self.end_reason in ("interrupted", "time")

    def describe_end(self, has_best: bool = True) -> str:
        """Return why the last session ended; an empty string if its budget was used up.

        Args:
            has_best: Whether any architecture is ranked. If the search stopped while it measured
                its reference sample, there is none.
        """
        config = self.config
        kept_results = "the best so far is kept"
        if not has_best:
            kept_results = "what was measured is kept"
        time = config.time or EFFORTS.get(config.effort, "")
        if self.end_reason == "time" and config.confirm:
            return f"Scoring stopped when its share of the total time ({time}) was used."
        sentences = {
            "time": f"Stopped after {time}: {kept_results}, and the same command resumes.",
            "stable": f"Stopped because the best {config.top} have not changed for {config.stable} "
            "new architectures.",
            "exhausted": "There are no more architectures to score.",
            "interrupted": f"Stopped by Ctrl-C: {kept_results}, and the same command resumes.",
        }
        return sentences.get(self.end_reason, "")

    def describe_budget(self) -> str:
        """Return when the search stops, in words."""
        config = self.config
        parts = []
        if config.budget:
            parts.append(format_count(config.budget, "architecture"))
        if config.time:
            parts.append(config.time)
        elif config.effort:
            parts.append(EFFORTS[config.effort])
        if config.stable:
            parts.append(
                f"until the best {config.top} are stable for {config.stable:,} architectures"
            )
        return ", ".join(parts)

    def describe_screening(self, screened_count: int, kept_count: int) -> str:
        """Return how many architectures were screened and kept; empty if there was no screening."""
        if not self.config.screen:
            return ""
        count = format_count(screened_count, "architecture")
        return f"Screened {count} with {self.config.screen} and kept the best {kept_count:,}."

    def to_command(self) -> str:
        """Return the command that repeats or resumes this run.

        It is empty if the data were objects in Python, which a command cannot name.
        """
        config = self.config
        if config.data == DATASET_NAME:
            return ""
        compute = config.compute
        arguments: dict[str, Any] = {
            "space": config.space,
            "proxy": config.proxy,
            "strategy": config.strategy,
            "data": config.data,
            "data_root": config.data_root,
            "seed": config.seed,
            "seeds": config.seeds,
            "device": compute.device,
            "screen": config.screen,
        }
        if config.screen:
            arguments["keep"] = config.keep
        arguments["validate"] = config.validate
        arguments["warm_up"] = config.warm_up
        arguments |= config.limit_texts
        arguments["input_size"] = config.input_size
        arguments["latency_table"] = config.latency_table
        if config.budget != DEFAULT_BUDGET:
            arguments["budget"] = config.budget
        arguments["time"] = config.time
        arguments["effort"] = config.effort
        arguments["stable"] = config.stable
        if config.stable:
            arguments["top"] = config.top
        arguments["also"] = config.also
        arguments["confirm"] = config.confirm
        arguments["time_limit"] = compute.time_limit
        # Records of networks that were measured in one pass have keys of their own.
        if compute.effective_networks_per_batch > 1:
            arguments["networks_per_batch"] = compute.effective_networks_per_batch
        arguments["run"] = str(self.folder)
        arguments["export"] = self.export
        arguments["recipe"] = self.export_recipe
        arguments["refit"] = self.export_refit
        if compute.device == "cpu":
            del arguments["device"]
        command = f"untrained search {format_options(SearchConfig, arguments)}"
        if get_default_group_size(config.data) and not config.confirm:
            command += " --no-confirm"
        return command

    def save(self) -> "RunFolder":
        """Write `run.json` atomically."""
        document = {"config": self.config.to_document()}
        for name, value in vars(self).items():
            if name not in ("folder", "config"):
                document[_STORED_KEYS.get(name, name)] = value
        if self.training_time_limit is not None:
            document["training_time_limit"] = asdict(self.training_time_limit)
        with use_run_folder(self.folder):
            write_atomically(self.folder / RUN_FILE, json.dumps(document, indent=2) + "\n")
        return self

    @classmethod
    def read(cls, folder: str | Path) -> "RunFolder":
        """Read a run folder.

        Raises:
            UsageError: The folder is not a run folder, or it is damaged.
        """
        path = Path(folder, RUN_FILE)
        if not path.is_file():
            raise UsageError(
                f"{folder} is not a run folder: it has no run.json; "
                f"`untrained search --run {folder}` makes one"
            )
        try:
            document: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
            is_outdated = any(name in document for name in _FORMER_KEYS)
            if not is_outdated:
                return cls._from_document(Path(folder), document)
        except (ValueError, TypeError, KeyError, AttributeError, UsageError) as error:
            raise UsageError(
                f"{path} is damaged: {error}; delete the folder, or choose another --run"
            ) from error
        # Raised here, because the handler above would report a damaged file.
        raise UsageError(
            f"{path} was written by an earlier version of untrained; choose another --run"
        )

    @classmethod
    def _from_document(cls, folder: Path, document: dict[str, Any]) -> "RunFolder":
        """Return the run that the content of `run.json` describes."""
        # Keys that a later version has added are ignored.
        arguments = {}
        for name in cls.__dataclass_fields__:
            key = _STORED_KEYS.get(name, name)
            if key in document:
                arguments[name] = document[key]
        arguments["folder"] = folder
        arguments["config"] = SearchConfig.from_document(document["config"])
        if document.get("training_time_limit"):
            arguments["training_time_limit"] = TrainingTimeLimit(**document["training_time_limit"])
        return cls(**arguments)


def get_default_group_size(data: str) -> int:
    """Return the default number of networks per group in the short trainings after a search.

    They are worth the time only on the user's own data. For other data sets, it is known how well
    the proxies rank.
    """
    kind = data.partition(":")[0]
    if kind in PICTURE_SOURCES:
        return DEFAULT_CONTEST_GROUP_SIZE
    if kind in SOURCES and SOURCES[kind].belongs_to_user:
        return DEFAULT_TABLE_GROUP_SIZE
    return 0


def get_default_effort(data: str) -> str:
    """Return the default effort of a search: "quick" on the user's own pictures, else none.

    A search on pictures ends with a contest, which takes as much time as it is given. Searches on
    tables end with a confirmation, which has a length of its own.
    """
    if data.partition(":")[0] in PICTURE_SOURCES:
        return "quick"
    return ""


def choose_default_folder(config: SearchConfig, weighs_objectives: bool = False) -> Path:
    """Return the path of the default folder of a run, named after its configuration."""
    words = [
        config.space,
        config.proxy,
        config.strategy,
        config.data,
        f"seed{config.seed}",
        f"x{config.seeds}",
        config.compute.device,
    ]
    if config.screen:
        words.append(f"{config.screen}-{config.keep}")
    if config.input_size:
        words.append(f"input{config.input_size}")
    if weighs_objectives and config.also:
        words.append(config.also)
    if config.validate:
        words.append(config.validate)
    if config.warm_up:
        words.append(f"warm-{config.warm_up}")
    for name, text in config.limit_texts.items():
        words.append(f"{name}-{text}")
    if config.latency_table is not None:
        words.append(f"latency_table-{config.latency_table}")
    words = [word for word in words if word not in _DEFAULT_WORDS]
    return Path("runs", make_folder_name(*words))


def make_folder_name(*words: str) -> str:
    """Join words into a folder name. A name that is too long is cut and ends in a hash."""
    parts = []
    for word in words:
        part = ""
        for character in word:
            is_allowed = character.isalnum() or character in "-_."
            part += character if is_allowed else "_"
        parts.append(part.strip("._"))
    name = "-".join(parts)
    if len(name.encode()) <= _MAX_NAME_BYTES:
        return name
    digest = sha256("\x1f".join(words).encode(errors="replace")).hexdigest()[:8]
    head = name.encode()[: _MAX_NAME_BYTES - 9].decode(errors="ignore")
    return f"{head}-{digest}"


def read_versions() -> dict[str, str]:
    """Return the versions of everything that affects the numbers."""
    versions = {"python": platform.python_version(), "untrained": __version__}
    for name in _PACKAGES:
        versions[name] = version(name)
    return versions
