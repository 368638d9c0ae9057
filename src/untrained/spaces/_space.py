"""A space is a function of choices: `def mynet(choose, task) -> nn.Module` under `@space`.

The function calls `choose(name, options)` as often as it likes, also in loops and branches, and returns the network,
or a function without arguments that makes it (then choices can be listed without building anything). It raises
`Invalid("why")` where choices do not go together; `choose(name, options, also=more)` accepts more when it is written,
but never draws it. Sampling, mutation, crossover, enumeration, printing and parsing follow from the calls it makes.
This file knows nothing of scores.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import getdoc, signature
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import torch
from torch import nn

from untrained._load import user_code_error
from untrained._options import check_option, option_hints
from untrained._quantities import show_value
from untrained.errors import UntrainedError, UsageError, unknown
from untrained.registry import Registry
from untrained.rng import Seed, as_generator
from untrained.spaces._choices import Call, Pick, any_of, drawn, every, inherited, record, replayed
from untrained.spaces._choices import Invalid as Invalid
from untrained.spaces._counts import Counts
from untrained.spaces._listing import listed
from untrained.spaces._notation import Notation, Pairs
from untrained.spaces._sketch import Sketch
from untrained.types import Arch, Genes, Task

Network = Callable[..., nn.Module | Callable[[], nn.Module]]
Canonical = Callable[[Genes], Genes]
Mutation = Callable[["Space", Arch, np.random.Generator], Arch]
Sampling = Callable[["Space", np.random.Generator], Arch]
Counting = Callable[["Space", Arch, Task], Counts | None]
Sketcher = Callable[[Arch], Sketch]
SPACES: Registry["Space"] = Registry("space")
_TRIES = 10_000  # combinations drawn before we say that (nearly) none is valid
_PATIENCE = 100  # mutants drawn with one choice changed before two are, and so on


@dataclass(frozen=True)
class Space:
    """Everything that follows from a function of choices. `options` are bound to the function's keyword arguments."""

    name: str
    network: Network
    usual: Task | Callable[..., Task]
    notation: Notation
    sketch: Sketcher | None = None
    count: int | Callable[..., int] | None = None
    canonical: Canonical | None = None
    mutation: Mutation | None = None
    sampling: Sampling | None = None
    sharing: Callable[..., Any] | None = None
    counting: Counting | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def about(self) -> str:
        return (getdoc(self.network) or "").partition("\n")[0]

    @property
    def task(self) -> Task:
        """What a network is built for unless another task is named."""
        return self.usual(**dict(self.options)) if callable(self.usual) else self.usual

    @property
    def size(self) -> int | None:
        """How many architectures there are, where that is known."""
        return self.count(**dict(self.options)) if callable(self.count) else self.count

    def configured(self, **options: Any) -> "Space":
        """The same space with other keyword arguments for its function, such as `channels=32`."""
        known = dict(list(signature(self.network).parameters.items())[2:])
        hints = option_hints(self.network)
        for option, value in options.items():
            if option not in known:
                raise unknown(f"option of {self.name}", option, known)
            check_option(self.name.partition("(")[0], option, value, hints.get(option, Any), known[option].default)
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
        except (Exception, SystemExit) as error:
            raise user_code_error(f"the space {self.name}", "when asked for its choices", error) from error

    def sample(self, seed: Seed = None) -> Arch:
        """Draw an architecture.

        Every choice is drawn with equal chances, again and again until they make a valid architecture, unless the
        space brings a way of its own.

        Args:
            seed: An integer, a numpy generator, or None for another architecture each time.
        """
        rng = as_generator(seed)
        sampling = self.sampling or Space.draw_all
        return self._first(lambda _: sampling(self, rng), "valid one")

    def draw_all(self, rng: np.random.Generator) -> Arch:
        """Every choice with equal chances."""
        return self._arch(self.trace(drawn(rng)))

    def mutate(self, arch: Arch, seed: Seed = None) -> Arch:
        """Draw another architecture near `arch`.

        One choice is changed, and what no longer fits is drawn anew, unless the space brings a mutation of its own.
        Where no change of one choice is valid, more are changed.

        Args:
            arch: The architecture to start from.
            seed: An integer, a numpy generator, or None for another architecture each time.
        """
        self._require_arch(arch)
        rng = as_generator(seed)
        mutation = self.mutation

        def attempt(tried: int) -> Arch:
            child = mutation(self, arch, rng) if mutation else self.change(arch, rng, 1 + tried // _PATIENCE)
            if child == arch:
                raise Invalid("a mutation must change something")
            return child

        return self._first(attempt, f"neighbour of {arch}")

    def change(self, arch: Arch, rng: np.random.Generator, choices: int = 1) -> Arch:
        """Change so many choices; what depends on them and no longer fits is drawn anew."""
        calls = [call for call in self.trace(replayed(arch.genes, str(arch))) if len(call.options) > 1]
        if not calls:
            raise UsageError(f"{arch} has no choice that could change")
        changed = dict(arch.genes)
        for place in rng.choice(len(calls), min(choices, len(calls)), replace=False):
            others = [option for option in calls[place].options if option != calls[place].value]
            changed[calls[place].name] = any_of(others, rng)
        return self._arch(self.trace(inherited([changed], rng)))

    def crossover(self, a: Arch, b: Arch, seed: Seed = None) -> Arch:
        """Every choice from one of the two parents; what fits neither is drawn anew. `seed` is as in `sample`."""
        self._require_arch(a)
        self._require_arch(b)
        rng = as_generator(seed)
        parents = [dict(a.genes), dict(b.genes)]
        return self._first(lambda _: self._arch(self.trace(inherited(parents, rng))), f"child of {a} and {b}")

    def __iter__(self) -> Iterator[Arch]:
        """Every architecture once, in lexicographic order of the options."""
        seen: set[Arch] = set()  # only a canonical form makes two combinations one architecture
        for calls in every(self.trace):
            arch = self._arch(calls)
            if arch not in seen:
                yield arch
            if self.canonical:
                seen.add(arch)

    def _first(self, attempt: Callable[[int], Arch], what: str) -> Arch:
        for tried in range(_TRIES):
            try:
                return attempt(tried)
            except Invalid as error:
                why = error
        raise UsageError(f"space {self.name}: no {what} in {_TRIES} tries, the last because {why}")

    # ----------------------------------------------------------------------------------------------- notation

    def parse(self, text: str) -> Arch:
        """The architecture that `text` names; an error marks the place where it goes wrong."""
        if not isinstance(text, str):
            raise UsageError(
                f"{show_value(text)} is not an architecture; give its text, such as {str(self.sample(0))!r}"
            )
        return self.arch(self.notation.parse(text), text)

    def arch(self, genes: Genes, said: str = "") -> Arch:
        """The architecture with these choices, which are all checked; `said` is how an error calls them."""
        said = said or Pairs().format(genes)
        calls = self._valid(said, lambda: self.trace(replayed(genes, said)))
        told, known = [name for name, _ in genes], [call.name for call in calls]
        for name in told:
            if name not in known:
                raise UsageError(f"{said}: there is no choice {name!r} here, only {', '.join(known) or 'none at all'}")
            if told.count(name) > 1:
                raise UsageError(f"{said} says {name!r} twice; keep one of them")
        return self._arch(calls)

    def _require_arch(self, arch: object) -> None:
        if not isinstance(arch, Arch):
            raise UsageError(f"{show_value(arch)} is not an Arch; {self.name} makes one by parse(text) or sample(seed)")

    def _arch(self, calls: tuple[Call, ...]) -> Arch:
        genes: Genes = tuple((call.name, call.value) for call in calls)
        genes = self.canonical(genes) if self.canonical else genes
        return Arch(self.name, genes, self.notation.format(genes))

    def _valid(self, said: str, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except Invalid as why:
            raise UsageError(f"{said} is not in {self.name}: {why}") from why

    # ---------------------------------------------------------------------------------------------- networks

    def build(self, arch: Arch, task: Task | None = None, device: str = "cpu") -> nn.Module:
        """The network of `arch` for `task`, with weights from torch's global random state."""
        self._require_arch(arch)
        pick = replayed(arch.genes, str(arch))
        _, made = self._valid(str(arch), lambda: self._run(pick, task or self.task, device))
        if isinstance(made, nn.Module):
            return made
        with _on(device):
            network: nn.Module = made()
            return network

    def counts(self, arch: Arch, task: Task | None = None) -> Counts | None:
        """The size of the network of `arch`, without building it; None where the space knows no formula."""
        return self.counting(self, arch, task or self.task) if self.counting else None

    def draft(self, arch: Arch, task: Task | None = None) -> Sketch:
        """What a drawing of `arch` shows: the space's own sketch, or else the layers of the network for `task`."""
        return self.sketch(arch) if self.sketch else listed(self.build(arch, task, device="meta"))

    def supernet(self, task: Task | None = None, device: str = "cpu") -> Any:
        """The network whose `subnet(arch)` is, with shared weights, the network of any architecture."""
        if self.sharing is None:
            named = ", ".join(name for name, space in SPACES.items() if space.sharing)
            raise UsageError(f"{self.name} has no supernet; these have: {named}")
        with _on(device):
            return self.sharing(task or self.task, **dict(self.options))

    def _run(self, pick: Pick, task: Task, device: str) -> tuple[tuple[Call, ...], Any]:
        def run(choose: Pick) -> Any:
            with _on(device):
                return self.network(choose, task, **dict(self.options))

        return record(self.name, pick, run)


def _on(device: str) -> AbstractContextManager[Any]:
    """Tensors are made on this device. Saying so where they are anyway would cost a seventh of building."""
    return nullcontext() if torch.get_default_device() == torch.device(device) else torch.device(device)


class Extras(TypedDict, total=False):
    """What a space may say of itself beside its function; all of it is optional."""

    task: Task | Callable[..., Task]  # what it is for unless another is named; a function of the options if they decide
    notation: Notation  # the community's string
    canonical: Canonical  # one way to write what is the same; its genes are choices the function accepts
    mutation: Mutation  # instead of changing one choice; may raise `Invalid`, then it is asked again
    sampling: Sampling  # instead of drawing every choice with equal chances; may raise `Invalid` likewise
    sketch: Sketcher
    size: int | Callable[..., int]  # a function of the options where they decide it
    supernet: Callable[..., Any]  # (task, **options) -> a module with `subnet(arch)`
    counts: Counting  # exact sizes by a formula; None for a task on which networks may not run


@overload
def space(network: Network) -> Space: ...


@overload
def space(**extras: Unpack[Extras]) -> Callable[[Network], Space]: ...


def space(network: Network | None = None, **extras: Unpack[Extras]) -> Space | Callable[[Network], Space]:
    """Decorator: make a `Space` of a function `(choose, task) -> nn.Module`. Its name is the function's name."""

    def make(function: Network) -> Space:
        return Space(
            function.__name__,
            function,
            extras.get("task", Task("digits", (3, 32, 32), 10)),
            extras.get("notation", Pairs()),
            sketch=extras.get("sketch"),
            count=extras.get("size"),
            canonical=extras.get("canonical"),
            mutation=extras.get("mutation"),
            sampling=extras.get("sampling"),
            sharing=extras.get("supernet"),
            counting=extras.get("counts"),
        )

    return make if network is None else make(network)
