"""A space is a function of choices: `def mynet(choose, task) -> nn.Module` under `@space`.

The function calls `choose(name, options)` as often as it likes, also in loops and branches, and returns the network,
or a function without arguments that makes it (then choices can be listed without building anything). Sampling,
mutation, enumeration, printing and parsing follow from the calls it makes. This file knows nothing of scores.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import getdoc, signature
from typing import Any, overload

import numpy as np
import torch
from torch import nn

from untrained._load import UserCodeError, own_traceback
from untrained.errors import UntrainedError, UsageError, unknown
from untrained.registry import Registry
from untrained.spaces._notation import Notation, Pairs
from untrained.spaces._sketch import Sketch
from untrained.types import Arch, Choice, Genes, Task

Pick = Callable[[str, Sequence[Choice]], Choice]
Network = Callable[..., nn.Module | Callable[[], nn.Module]]
Sketcher = Callable[[Arch], Sketch]
SPACES: Registry["Space"] = Registry("space")


@dataclass(frozen=True)
class Call:
    """One call of `choose`: what was asked, what could be answered, what was."""

    name: str
    options: tuple[Choice, ...]
    value: Choice


@dataclass(frozen=True)
class Space:
    """Everything that follows from a function of choices. `options` are bound to the function's keyword arguments."""

    name: str
    network: Network
    task: Task
    notation: Notation
    sketch: Sketcher | None = None
    size: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def about(self) -> str:
        return (getdoc(self.network) or "").partition("\n")[0]

    def configured(self, **options: Any) -> "Space":
        """The same space with other keyword arguments for its function, such as `channels=32`."""
        known = list(signature(self.network).parameters)[2:]
        for option in options:
            if option not in known:
                raise unknown(f"option of {self.name}", option, known)
        merged = {**dict(self.options), **options}
        written = ",".join(f"{name}={value}" for name, value in merged.items())
        return replace(self, name=f"{self.name.partition('(')[0]}({written})", options=tuple(merged.items()))

    # ------------------------------------------------------------------------------------------------- choices

    def trace(self, pick: Pick, task: Task | None = None) -> tuple[Call, ...]:
        """The calls of `choose` when `pick` answers them; nothing is allocated."""
        try:
            return self._run(pick, task or self.task, device="meta")[0]
        except UntrainedError:
            raise
        except Exception as error:
            raise UserCodeError(
                f"the space {self.name} raised when asked for its choices\n{own_traceback(error)}"
            ) from error

    def sample(self, rng: np.random.Generator) -> Arch:
        return self._arch(self.trace(lambda _, options: _any(options, rng)))

    def mutate(self, arch: Arch, rng: np.random.Generator) -> Arch:
        """Change one choice; what depends on it and no longer fits is drawn anew."""
        calls = [call for call in self.trace(self._replay(arch)) if len(call.options) > 1]
        if not calls:
            raise UsageError(f"{arch} has no choice that could change")
        target = calls[int(rng.integers(len(calls)))]
        others = [option for option in target.options if option != target.value]
        changed = dict(arch.genes) | {target.name: _any(others, rng)}

        def pick(name: str, options: Sequence[Choice]) -> Choice:
            return changed[name] if changed.get(name) in options else _any(options, rng)

        return self._arch(self.trace(pick))

    def __iter__(self) -> Iterator[Arch]:
        """Every architecture once, in lexicographic order of the options."""
        prefix: list[int] = []
        while True:
            taken: list[tuple[int, int]] = []  # (index chosen, number of options) of each call

            def pick(name: str, options: Sequence[Choice], taken: list[tuple[int, int]] = taken) -> Choice:
                index = prefix[len(taken)] if len(taken) < len(prefix) else 0
                taken.append((index, len(options)))
                return options[index]

            yield self._arch(self.trace(pick))
            while taken and taken[-1][0] + 1 == taken[-1][1]:
                taken.pop()
            if not taken:
                return
            prefix[:] = [index for index, _ in taken[:-1]] + [taken[-1][0] + 1]

    # ----------------------------------------------------------------------------------------------- notation

    def parse(self, text: str) -> Arch:
        """The architecture that `text` names; an error marks the place where it goes wrong."""
        genes = self.notation.parse(text)
        arch = self._arch(self.trace(self._replay(Arch(self.name, genes, text))))
        said, known = [name for name, _ in genes], [name for name, _ in arch.genes]
        for name in said:
            if name not in known:
                raise UsageError(f"{text}: there is no choice {name!r} here, only {', '.join(known) or 'none at all'}")
            if said.count(name) > 1:
                raise UsageError(f"{text} says {name!r} twice; keep one of them")
        return arch

    def _arch(self, calls: Sequence[Call]) -> Arch:
        genes: Genes = tuple((call.name, call.value) for call in calls)
        return Arch(self.name, genes, self.notation.format(genes))

    def _replay(self, arch: Arch) -> Pick:
        genes = dict(arch.genes)

        def pick(name: str, options: Sequence[Choice]) -> Choice:
            if name not in genes:
                raise UsageError(f"{arch} does not say {name!r}; it can be one of {', '.join(map(str, options))}")
            for option in options:
                if option == genes[name] or str(option) == str(genes[name]):  # "3" is written like 3
                    return option
            allowed = ", ".join(map(str, options))
            raise UsageError(f"{arch}: {name!r} is {genes[name]!r}, but it can only be one of {allowed}")

        return pick

    # ---------------------------------------------------------------------------------------------- networks

    def build(self, arch: Arch, task: Task | None = None, device: str = "cpu") -> nn.Module:
        """The network of `arch` for `task`, with weights from torch's global random state."""
        _, made = self._run(self._replay(arch), task or self.task, device)
        if isinstance(made, nn.Module):
            return made
        with torch.device(device):
            network: nn.Module = made()
            return network

    def _run(self, pick: Pick, task: Task, device: str) -> tuple[tuple[Call, ...], Any]:
        calls: dict[str, Call] = {}

        def choose(name: str, options: Sequence[Choice]) -> Choice:
            if name in calls:
                raise UsageError(f"space {self.name}: the choice {name!r} is made twice; give each its own name")
            if not options:
                raise UsageError(f"space {self.name}: the choice {name!r} has no options")
            calls[name] = Call(name, tuple(options), pick(name, options))
            return calls[name].value

        with torch.device(device):
            made = self.network(choose, task, **dict(self.options))
        return tuple(calls.values()), made


def _any(options: Sequence[Choice], rng: np.random.Generator) -> Choice:
    return options[int(rng.integers(len(options)))]


@overload
def space(network: Network) -> Space: ...


@overload
def space(
    *, task: Task = ..., notation: Notation | None = ..., sketch: Sketcher | None = ..., size: int | None = ...
) -> Callable[[Network], Space]: ...


def space(
    network: Network | None = None,
    *,
    task: Task = Task("digits", (3, 32, 32), 10),  # noqa: B008 - frozen
    notation: Notation | None = None,
    sketch: Sketcher | None = None,
    size: int | None = None,
) -> Space | Callable[[Network], Space]:
    """Decorator: make a `Space` of a function `(choose, task) -> nn.Module`. Its name is the function's name."""

    def make(function: Network) -> Space:
        return Space(function.__name__, function, task, notation or Pairs(), sketch, size)

    return make if network is None else make(network)
