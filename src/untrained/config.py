"""Configuration of a search: frozen dataclasses that are saved in `run.json` and read from it.

`SearchConfig` describes a search, `ComputeConfig` the devices and workers. Both validate their
values when they are created, so that a mistake is reported before any work begins. Registered
names, such as the name of a space, are checked where they are looked up.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from math import inf
from pathlib import Path
from typing import Any, TypedDict

from untrained.errors import UsageError, make_unknown_name_error
from untrained.names import fingerprint_user_code, parse_call, split_names
from untrained.quantities import (
    check_count,
    check_optional_count,
    check_seed,
    parse_duration,
    parse_path,
    show_value,
)
from untrained.workers import check_workers

# Of the embedded data sets, the one whose scores rank architectures best; see
# docs/results/dextr-nasbench201.md.
DEFAULT_DATA = "digits"
DEFAULT_SPACE = "auto"
DEFAULT_PROXY = "consensus"  # compared with others in docs/results/consensus.md
DEFAULT_BUDGET = 100  # architectures
# Time of a whole search, with its contest and the training of the winner.
EFFORTS = {"quick": "15m", "normal": "1h", "thorough": "4h"}


@dataclass(frozen=True)
class ComputeConfig:
    """Where and how networks are scored.

    Attributes:
        device: A torch device, such as "cpu", "cuda" or "cuda:1".
        workers: Number of worker processes; None for one per core or per GPU.
        ray: "local", or the address of a Ray cluster; None to use processes of this machine.
        time_limit: Longest time for one architecture, such as "30s". A slower one is a failure.
        networks_per_batch: Number of networks that a worker measures in one pass. More than 1 is
            useful on a GPU.

    Raises:
        UsageError: A value is invalid.
    """

    device: str = "cpu"
    workers: int | None = None
    ray: str | None = None
    time_limit: str | None = None
    networks_per_batch: int = 1

    def __post_init__(self) -> None:
        check_workers(self.workers, self.ray)
        check_count(self.networks_per_batch, "networks_per_batch")
        if self.time_limit is not None:
            parse_duration(self.time_limit)

    @property
    def time_limit_seconds(self) -> float | None:
        """The time limit in seconds, or None if there is none."""
        if self.time_limit is None:
            return None
        return parse_duration(self.time_limit)

    @property
    def effective_networks_per_batch(self) -> int:
        """Number of networks that a worker measures in one pass; 1 if there is a time limit.

        In a pass of several networks, it is unknown which one is slow.
        """
        if self.time_limit is not None:
            return 1
        return self.networks_per_batch


class ComputeOptions(TypedDict, total=False):
    """Fields of `ComputeConfig` that `search` and `bench` take as keyword arguments."""

    workers: int | None
    ray: str | None
    time_limit: str | None
    networks_per_batch: int


# --- limits ---

_MULTIPLIERS = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_NUMBER = r"(\d+(?:\.\d*)?(?:e\+?\d+)?) ?"


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """The longest time that one sample may take on a device."""

    seconds: float
    device: str = "cpu"

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:.4g} ms on {self.device}"

    def is_exceeded_by(self, seconds: float) -> bool:
        """Return whether a latency is above the limit. All checks of `--max-latency` use it."""
        return seconds > self.seconds


def parse_amount(text: str | float, name: str = "number") -> float:
    """Parse a number of parameters or multiply-adds: "2M", "1.5k" or "2e6", in powers of 1,000."""
    value = 0.0
    match = re.fullmatch(rf"{_NUMBER}([kKMGT]?)", str(text).strip())
    if match:
        value = float(match[1]) * _MULTIPLIERS[match[2]]
    if not 0 < value < inf:
        raise _make_limit_error(text, name, _suggest_amount(text) or "2M or 600M")
    return value


def parse_bytes(text: str | float, name: str = "size") -> float:
    """Parse an amount of memory: "1.5GB" or "300MB"; "1GiB" is a power of 1,024."""
    value = 0.0
    match = re.fullmatch(rf"{_NUMBER}([kKMGT]?|[KMG]i)B?", str(text).strip())
    if match:
        value = float(match[1]) * _MULTIPLIERS[match[2]]
    if not 0 < value < inf:
        amount = _suggest_amount(text)
        raise _make_limit_error(text, name, f"{amount}B" if amount else "1.5GB or 300MB")
    return value


def parse_latency(text: str, name: str = "latency") -> LatencyLimit:
    """Parse a latency: "5ms" on the CPU, or "0.2s@cuda" on another device."""
    value = 0.0
    device = None
    match = re.fullmatch(rf"{_NUMBER}(s|ms|us)(?:@([\w:]+))?", str(text).strip())
    if match:
        value = float(match[1]) * _SECONDS[match[2]]
        device = match[3]
    if not 0 < value < inf:
        raise _make_limit_error(text, name, _suggest_latency(text) or "5ms or 5ms@cpu")
    return LatencyLimit(value, device or "cpu")


def _make_limit_error(text: object, name: str, example: str) -> UsageError:
    return UsageError(f"{name.replace('_', ' ')} cannot be {text!r}; write it like {example}")


def _suggest_amount(text: object) -> str:
    """Return what the user may have meant by an amount: "300k" for "300kb"; empty if unclear."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKmMgGtT])[a-zA-Z]*", str(text).strip())
    if match is None or float(match[1]) == 0:
        return ""
    prefix = match[2].upper().replace("K", "k")
    return match[1] + prefix


def _suggest_latency(text: object) -> str:
    """Return what the user may have meant by a latency: "10ms" for "10"; empty if unclear."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)", str(text).strip())
    if match is None or float(match[1]) == 0:
        return ""
    return f"{match[1]}ms"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the size and speed of an architecture, as numbers. None means no limit.

    Attributes:
        max_params: Largest number of parameters.
        min_params: Smallest number of parameters.
        max_flops: Largest number of multiply-adds for one sample.
        max_memory: Largest number of bytes of weights and activations for one sample, in float32.
        max_latency: Longest time for one sample on a device.
    """

    max_params: float | None = None
    min_params: float | None = None
    max_flops: float | None = None
    max_memory: float | None = None
    max_latency: LatencyLimit | None = None

    def __post_init__(self) -> None:
        if self.max_params and self.min_params and self.min_params > self.max_params:
            raise UsageError(
                f"no network has at least {self.min_params:,.0f} and at most "
                f"{self.max_params:,.0f} parameters; lower --min-params or raise --max-params"
            )

    @classmethod
    def parse(cls, **texts: Any) -> "Limits":
        """Parse limits from texts: `Limits.parse(max_params="2M", max_latency="5ms")`.

        Raises:
            UsageError: A limit is unknown, or its text cannot be parsed.
        """
        numbers = {}
        for name, text in texts.items():
            if name not in LIMIT_NAMES:
                raise make_unknown_name_error("limit", name, LIMIT_NAMES)
            if text is not None:
                numbers[name] = _parse_limit(name, text, name)
        return cls(**numbers)

    @classmethod
    def parse_options(cls, **texts: str | None) -> "Limits":
        """Like `parse`, but messages name the options of the command line: `--max-params`."""
        numbers = {}
        for name, text in texts.items():
            if text is not None:
                numbers[name] = _parse_limit(name, text, name_limit_option(name))
        return cls(**numbers)

    def __bool__(self) -> bool:
        return any(getattr(self, name) is not None for name in LIMIT_NAMES)


def _parse_limit(limit: str, text: Any, shown_name: str) -> Any:
    """Parse a limit; messages call it by the shown name."""
    parsers: dict[str, Callable[[Any, str], Any]] = {
        "max_memory": parse_bytes,
        "max_latency": parse_latency,
    }
    parse = parsers.get(limit, parse_amount)
    return parse(text, shown_name)


def name_limit_option(limit: str) -> str:
    """Return the option of a limit: "--max-params" for "max_params"."""
    return f"--{limit.replace('_', '-')}"


LIMIT_NAMES = tuple(limit.name for limit in fields(Limits))
# Keys of `ut.search(limits={...})` and the attributes of `Limits`. Keys without a prefix are upper
# limits.
LIMIT_KEYS = {
    "params": "max_params",
    "min_params": "min_params",
    "flops": "max_flops",
    "memory": "max_memory",
    "latency": "max_latency",
}


@dataclass(frozen=True)
class TrainingTimeLimit:
    """The longest time that training on one sample may take, so that a network can be trained.

    The time is predicted from the size of a network. Multiply-adds alone do not suffice: on a CPU,
    depthwise convolutions take ten times as long per multiply-add as dense ones, because they read
    and write more activations.

    Attributes:
        seconds: The longest time.
        seconds_per_flop: Time per multiply-add of a forward pass.
        seconds_per_byte: Time per byte of weights and activations.
    """

    seconds: float
    seconds_per_flop: float
    seconds_per_byte: float

    def predict_seconds(self, flops: float, memory: float) -> float:
        """Predict how long training on one sample takes.

        Args:
            flops: Multiply-adds of a forward pass of one sample.
            memory: Bytes of weights and activations of one sample.
        """
        return self.seconds_per_flop * flops + self.seconds_per_byte * memory


# --- search ---


@dataclass(frozen=True)
class SearchConfig:
    """Everything that a user can set for a search.

    Attributes:
        space: Name of the space to search, such as "nasbench201" or "./mine.py:mynet"; "auto" for
            the one that suits the data.
        proxy: Name of the proxy that ranks architectures; "auto" for the one that a calibration
            recommends.
        strategy: Name of the strategy, with options in brackets: "evolution(population=32)".
        data: Name of the data that networks see, such as "digits" or "folder:./photos".
        data_root: Folder of data sets; None for the default.
        input_size: Side of the square images that networks see; None for that of the space.
        budget: Number of architectures to score; None for 100 if nothing else ends the search.
        time: Time for the whole run, such as "30m": scoring, the short trainings that choose the
            winner (the contest), and the training of the winner.
        effort: "quick", "normal" or "thorough", for the times of `EFFORTS`; empty for no limit.
            `time` takes precedence.
        stable: Stop when the best `top` architectures have not changed during this many new ones.
        top: Number of best architectures that `stable` compares.
        screen: Cheap proxies that select the architectures to score with `proxy`.
        keep: Share of the architectures that pass the screen.
        also: Additional proxies to record. Only strategies with several objectives optimise them.
        validate: How the strategies hnas and best_of_pool validate their final candidates:
            "table:cifar10_val_12" or "training(epochs=3,samples=1500)".
        warm_up: Training on a share of the data before networks are scored: "10%".
        confirm: Size N of the groups that are trained briefly at the end; 0 for no such trainings.
            On tables, they are N architectures with the best scores, N of the largest and N random
            ones. On images, they are 2N of the best, N of the largest, N/2 random ones and the
            known designs.
        limits: Limits as text: {"params": "1M", "latency": "5ms"}. The keys are those of
            `LIMIT_KEYS`.
        latency_table: Latencies that were measured on another device, as a CSV file; None to
            measure on this machine.
        seed: First seed of sampling, weights and batches.
        seeds: Number of seeds to average over.
        run: The run folder; None for one under `runs/` that is named after this config.
        compute: Where and how networks are scored.

    Raises:
        UsageError: A value is invalid.
    """

    space: str = DEFAULT_SPACE
    proxy: str = DEFAULT_PROXY
    strategy: str = "random"
    data: str = DEFAULT_DATA
    data_root: Path | None = None
    input_size: int | None = None
    budget: int | None = None
    time: str | None = None
    effort: str = ""
    stable: int | None = None
    top: int = 10
    screen: str = ""
    keep: str = "20%"
    also: str = ""
    validate: str = ""
    warm_up: str = ""
    confirm: int = 0
    limits: Mapping[str, str | float | None] = field(default_factory=dict)
    latency_table: Path | None = None
    seed: int = 0
    seeds: int = 1
    run: Path | None = None
    compute: ComputeConfig = ComputeConfig()

    def __post_init__(self) -> None:
        check_optional_count(self.budget, "budget")
        check_optional_count(self.stable, "stable")
        check_count(self.top, "top")
        check_count(self.confirm, "confirm", 0)
        check_seed(self.seed, check_count(self.seeds, "seeds"))
        if self.time is not None:
            parse_duration(self.time)
        if self.effort and self.effort not in EFFORTS:
            raise make_unknown_name_error("effort", self.effort, EFFORTS)
        # The dataclass is frozen, so normalised values are set with `object.__setattr__`.
        if self.run is not None:
            object.__setattr__(self, "run", parse_path(self.run, "run"))
        if self.data_root is not None:
            object.__setattr__(self, "data_root", parse_path(self.data_root, "data_root"))
        object.__setattr__(self, "limits", parse_limit_texts(self.limits))
        if self.latency_table is not None:
            table = parse_path(self.latency_table, "latency_table")
            object.__setattr__(self, "latency_table", table)
            if "latency" not in self.limits:
                raise UsageError(
                    "a latency table needs a latency limit, such as --max-latency 20ms or "
                    'limits={"latency": "20ms"}'
                )

    @property
    def time_seconds(self) -> float | None:
        """The time for the whole search in seconds; None if there is no limit."""
        if self.time is not None:
            return parse_duration(self.time)
        if self.effort:
            return parse_duration(EFFORTS[self.effort])
        return None

    @property
    def score_name(self) -> str:
        """Name of the score that decides the ranking: the validation, or else the proxy."""
        return self.validate or self.proxy

    @property
    def limit_texts(self) -> dict[str, str]:
        """The limits as the user typed them, by attribute of `Limits`."""
        return {LIMIT_KEYS[key]: str(text) for key, text in self.limits.items()}

    def list_user_code(self, has_objectives: bool = False) -> list[str]:
        """Return the names of the user's own spaces, proxies and so on that decide the search.

        Args:
            has_objectives: Whether the strategy weighs the proxies of `also`. Otherwise they are
                only recorded.
        """
        _, options = parse_call(self.strategy)
        names = [self.space, self.proxy]
        for option in options.values():
            names.append(str(option))
        names += split_names(self.screen)
        if has_objectives:
            names += split_names(self.also)
        return [name for name in names if fingerprint_user_code(name)]

    def describe_search(self) -> dict[str, object]:
        """Return the settings that decide which architectures a search proposes, and their scores.

        Settings that only decide when it stops are left out. Of two searches with equal
        descriptions, one can resume the other. Additional proxies (`also`) are left out too,
        because most strategies only record them; `RunFolder.describe_requests` adds them for
        the others.
        """
        description: dict[str, object] = {
            "space": self.space,
            "proxy": self.proxy,
            "strategy": self.strategy,
            "data": self.data,
            "seed": self.seed,
            "seeds": self.seeds,
            "device": self.compute.device,
            "screen": self.screen,
            # The share has no effect without a screen.
            "keep": self.keep if self.screen else "",
            "validate": self.validate,
            "warm_up": self.warm_up,
        }
        for name in LIMIT_NAMES:
            description[name] = self.limit_texts.get(name)
        description["input_size"] = self.input_size
        description["latency_table"] = None
        if self.latency_table is not None:
            description["latency_table"] = str(self.latency_table)
        return description

    def to_document(self) -> dict[str, Any]:
        """Return the config as plain data for JSON.

        The number of workers and the address of their cluster are left out: they belong to a
        machine, and a run can be read or resumed on another machine.
        """
        document = asdict(self)
        del document["compute"]["workers"]
        del document["compute"]["ray"]
        for name in ("run", "data_root", "latency_table"):
            if document[name] is not None:
                document[name] = str(document[name])
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "SearchConfig":
        """Read what `to_document` returned.

        Raises:
            UsageError: A value is invalid.
            TypeError: The document is not a config.
        """
        settings = dict(document)
        compute_settings = dict(document["compute"])
        _add_missing_unit(settings, "time")
        _add_missing_unit(compute_settings, "time_limit")
        settings["compute"] = ComputeConfig(**compute_settings)
        return cls(**settings)


def _add_missing_unit(settings: dict[str, Any], name: str) -> None:
    """Add the unit to a duration of an earlier version, which took numbers for seconds."""
    text = settings.get(name)
    if isinstance(text, str) and re.fullmatch(r"\d+(\.\d+)?", text):
        settings[name] = f"{text}s"


def parse_limit_texts(limits: object) -> dict[str, str]:
    """Validate the limits of a user and return those that are not None, as text."""
    if not isinstance(limits, Mapping):
        example = '{"params": "1M", "latency": "5ms"}'
        raise UsageError(f"limits are {show_value(limits)}; write them like limits={example}")
    for key in limits:
        if key not in LIMIT_KEYS:
            raise make_unknown_name_error("limit", key, LIMIT_KEYS)
    texts = {}
    # The order is always the same, so that equal limits lead to the same folder name.
    for key in LIMIT_KEYS:
        if limits.get(key) is not None:
            texts[key] = limits[key]
    # This raises an error for a text that is not a limit.
    Limits.parse(**{LIMIT_KEYS[key]: text for key, text in texts.items()})
    return {key: str(text) for key, text in texts.items()}
