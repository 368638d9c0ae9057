"""Evaluators turn Archs into Records. This one builds the network and asks proxies; benchmark tables and trainings are
others of the same type, so that no strategy knows whom it talks to.

Failures are values: whatever goes wrong with one architecture becomes the `Failure` in its record, and the run goes on.
"""

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, isnan
from pathlib import Path
from time import perf_counter
from typing import ParamSpec, Protocol, TypeVar

import torch
from torch import nn

from untrained.data import Source
from untrained.data._source import fingerprint
from untrained.engine.store import Store, key_of
from untrained.errors import Unscorable, UsageError
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import Proxy
from untrained.rng import seed_for
from untrained.types import Arch, Batch, Failure, Record

Build = Callable[[Arch], nn.Module]
P = ParamSpec("P")
T = TypeVar("T")


class Evaluator(Protocol):
    """Anything that can judge architectures."""

    def __call__(self, archs: Sequence[Arch]) -> Iterator[list[Record]]: ...


@dataclass
class ProxyEvaluator:
    """Build each architecture once a seed, show it a batch, ask every proxy; read the store before, write it after."""

    build: Build
    source: Source
    proxies: Sequence[Proxy]
    seeds: Sequence[int] = (0,)
    device: str = "cpu"
    store: Store | None = None

    def __post_init__(self) -> None:
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"device {self.device!r} cannot be used on this machine; try cpu, cuda or mps") from error

    def __call__(self, archs: Sequence[Arch]) -> Iterator[list[Record]]:
        """The records of one architecture after the other, in the order of proxies and seeds."""
        for arch in archs:
            yield [record for seed in self.seeds for record in self._one(arch, seed)]

    def _one(self, arch: Arch, seed: int) -> list[Record]:
        blanks = [self._blank(arch, proxy, seed) for proxy in self.proxies]
        known = [self.store.get(key_of(blank)) if self.store is not None else None for blank in blanks]
        missing = [place for place, record in enumerate(known) if record is None]
        fresh = self._measure(arch, seed, [blanks[i] for i in missing], [self.proxies[i] for i in missing])
        if self.store is not None:
            self.store.add(fresh)
        answers = iter(fresh)
        return [record or next(answers) for record in known]

    def _blank(self, arch: Arch, proxy: Proxy, seed: int) -> Record:
        """The record as far as it is known before anything is measured."""
        _, data = self._batch(proxy.samples, seed)
        return Record(
            arch, proxy.measure, self.source.task, seed, 0.0, data=data, device=torch.device(self.device).type
        )

    def _measure(self, arch: Arch, seed: int, blanks: list[Record], proxies: list[Proxy]) -> list[Record]:
        if not proxies:
            return []
        start = perf_counter()
        model = attempt(self._network, arch, seed)
        build_seconds = (perf_counter() - start) / len(proxies)
        probes: list[Probe] = []  # one at most, made when first asked for
        done = []
        for blank, proxy in zip(blanks, proxies, strict=True):
            start = perf_counter()
            outcome = model if isinstance(model, Failure) else attempt(self._ask, proxy, model, seed, probes)
            value, error = (None, outcome) if isinstance(outcome, Failure) else (outcome, None)
            seconds = perf_counter() - start
            done.append(replace(blank, value=value, error=error, build_seconds=build_seconds, measure_seconds=seconds))
        return done

    def _ask(self, proxy: Proxy, model: nn.Module, seed: int, probes: list[Probe]) -> float:
        """The score of one proxy. All share one probe of the largest batch, of which each sees its first samples; a
        small batch is the head of a large one, so no record depends on which other proxies were asked."""
        if not probes:
            batch, _ = self._batch(max(p.samples for p in self.proxies), seed)
            probes.append(Probe(model, batch.to(self.device), loss=self.source.task.loss, seed=seed))
        value = proxy(probes[0])
        if isnan(value):
            raise Unscorable("nan", "the score is not a number")
        if not isfinite(value):
            raise Unscorable("inf", "the score is infinite")
        return value

    def _network(self, arch: Arch, seed: int) -> nn.Module:
        """The network with weights that depend on the architecture and the seed alone."""
        with random_state(seed_for("weights", arch.space, arch, seed)):
            return self.build(arch).to(self.device)

    @cached_property
    def _batches(self) -> dict[tuple[int, int], tuple[Batch, str]]:
        return {}

    def _batch(self, samples: int, seed: int) -> tuple[Batch, str]:
        if (samples, seed) not in self._batches:
            batch = self._draw(samples, seed)
            self._batches[samples, seed] = batch, fingerprint(batch)
        return self._batches[samples, seed]

    def _draw(self, samples: int, seed: int) -> Batch:
        try:
            return self.source.batch(samples, seed)
        except (RuntimeError, MemoryError) as error:
            why = "they do not fit into memory" if _kind(error) == "oom" else _first_line(error)
            raise UsageError(f"no samples for {self.source.task}: {why}; choose another input shape") from error


def attempt(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failure:
    """The result of `work`, or why there is none. Wrong usage and Ctrl-C are no failures of the network."""
    try:
        return work(*args, **kwargs)
    except UsageError:
        raise
    except Unscorable as reason:
        return Failure(reason.kind, reason.detail)
    except Exception as error:
        return Failure(_kind(error), _last_line(error))


def _kind(error: Exception) -> str:
    """The one word to count by, for an exception that nobody raised on purpose."""
    text = str(error)
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return "oom"
    if isinstance(error, torch.OutOfMemoryError):
        return "oom"
    if isinstance(error, NotImplementedError) or re.search("derivative for .* is not implemented", text):
        return "unsupported"
    return "error"


def _last_line(error: BaseException) -> str:
    """Type, message, and the last place in code that is neither ours nor torch's, where there is one."""
    libraries = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(libraries)]
    place = f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {_first_line(error)}{place}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]
