"""A space is a function of choices: `def mynet(choose, task) -> nn.Module` below `@space`.

The function calls `choose(name, options)` any number of times, also in loops and branches. It
returns the network, or a function without arguments that builds the network; in the second case the
choices can be listed without building anything. It raises `InvalidArch("reason")` if its choices do
not fit together. `choose(name, options, not_sampled=more)` accepts more values in a written
architecture but never samples them.

Sampling, mutation, crossover, enumeration, printing and parsing follow from these calls.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from inspect import getdoc, signature
from typing import Any, overload
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn
from torch.utils._device import DeviceContext

from untrained.drawings.diagrams import Diagram, list_layers
from untrained.drawings.network_graph import trace_layer_graph
from untrained.errors import UntrainedError, UsageError, make_unknown_name_error
from untrained.names import make_user_code_error
from untrained.options import check_option, read_option_hints
from untrained.quantities import show_value
from untrained.registry import Registry
from untrained.seeds import Seed, as_generator
from untrained.spaces.core.choices import Choose as Choose
from untrained.spaces.core.choices import (
    Chooser,
    Decisions,
    Trial,
    enumerate_decisions,
    make_inheriting_chooser,
    make_random_chooser,
    make_replay_chooser,
    make_trial_chooser,
    record_decisions,
)
from untrained.spaces.core.choices import InvalidArch as InvalidArch
from untrained.spaces.core.counts import Counts
from untrained.spaces.core.notation import Notation, PairNotation
from untrained.spaces.core.repeatability import compare_networks, find_difference
from untrained.types import Arch, Choice, Genes, Task

# Functions such as `kaiming_uniform_`, which change a tensor in place and return it.
_INITIALISERS = frozenset(
    getattr(nn.init, name)
    for name in dir(nn.init)
    if name.endswith("_") and not name.startswith("_")
)

NetworkBuilder = Callable[[], nn.Module]
NetworkFunction = Callable[..., nn.Module | NetworkBuilder]
SampleFunction = Callable[["Space", np.random.Generator], Arch]
MutateFunction = Callable[["Space", Arch, np.random.Generator], Arch]
CountsFunction = Callable[["Space", Arch, Task], Counts | None]
DesignsFunction = Callable[[Task], Mapping[str, str]]

SPACES: Registry["Space"] = Registry("space")
DEFAULT_TASK = Task("digits", (3, 32, 32), 10)

# Sampling, mutation and crossover give up after this many invalid architectures.
_MAX_ATTEMPTS = 10_000
# The first samples of a user's space, and the first networks that its builders return, are checked
# for repeatability. This is the number of checks of each kind.
_CHECKS_PER_SPACE = 3
# A mutation changes one choice in its first 100 attempts, two choices in the next 100, and so on.
_ATTEMPTS_PER_CHANGE = 100

# For the functions of users: the number of checked samples and of checked networks, by the name of
# the space including its options.
_checked_samples: WeakKeyDictionary[NetworkFunction, Counter[str]] = WeakKeyDictionary()
_checked_builders: WeakKeyDictionary[NetworkFunction, Counter[str]] = WeakKeyDictionary()


class NoAlternativeError(UsageError):
    """An architecture has no choice that could change, so it cannot be mutated."""


@dataclass(frozen=True)
class SpaceHooks:
    """Optional parts of a space in addition to its function; see the decorator `space`."""

    task: Task | Callable[..., Task] = DEFAULT_TASK
    notation: Notation = field(default_factory=PairNotation)
    canonical: Callable[[Genes], Genes] | None = None
    sample: SampleFunction | None = None
    mutate: MutateFunction | None = None
    draw: Callable[[Arch], Diagram] | None = None
    size: int | Callable[..., int] | None = None
    supernet: Callable[..., Any] | None = None
    counts: CountsFunction | None = None
    scale: str | None = None
    known_designs: DesignsFunction | None = None


@dataclass(frozen=True)
class Space:
    """A set of architectures, defined by a function of choices.

    Create one with the decorator `space`, or get a registered one with `load_space`.

    Attributes:
        name: Public name, with the options in brackets if there are any.
        network: The function of choices, which is called with `choose`, a task and the options and
            returns a network. `build` calls it with the choices of an architecture.
        hooks: Optional parts of the space.
        options: Values for keyword arguments of the function, such as `channels=32`.
        version: For a registered space: increased when its networks change.
    """

    name: str
    network: NetworkFunction
    hooks: SpaceHooks = field(default_factory=SpaceHooks)
    options: tuple[tuple[str, Any], ...] = ()
    version: int = 1

    def __repr__(self) -> str:
        # The fields hold functions, whose representations are long and say nothing.
        return f"<Space {self.name}>"

    @property
    def about(self) -> str:
        """First line of the docstring of the function."""
        docstring = getdoc(self.network) or ""
        return docstring.partition("\n")[0]

    @property
    def task(self) -> Task:
        """The default task: networks are built for it unless another task is given."""
        task = self.hooks.task
        if callable(task):
            return task(**dict(self.options))
        return task

    @property
    def size(self) -> int | None:
        """Number of architectures, or None if it is unknown."""
        size = self.hooks.size
        if callable(size):
            return size(**dict(self.options))
        return size

    @property
    def is_builtin(self) -> bool:
        """Whether the space is registered and not the user's own."""
        base_name = self.name.partition("(")[0]
        return base_name in SPACES and SPACES[base_name].network is self.network

    @property
    def has_supernet(self) -> bool:
        """Whether `supernet` is available."""
        return self.hooks.supernet is not None

    @property
    def scale(self) -> str | None:
        """Name of the choice that makes networks larger or smaller, or None if there is none."""
        return self.hooks.scale

    @property
    def option_names(self) -> list[str]:
        """Names of the options: the parameters of the function after `choose` and `task`."""
        return list(signature(self.network).parameters)[2:]

    def with_options(self, **options: object) -> "Space":
        """Return the same space with other keyword arguments for its function.

        Args:
            **options: For instance `channels=32`. Options that were set before are kept.

        Raises:
            UsageError: The space has no such option, or its type hint does not allow the value.
        """
        base_name = self.name.partition("(")[0]
        parameters = signature(self.network).parameters
        hints = read_option_hints(self.network)
        for option, value in options.items():
            if option not in self.option_names:
                raise make_unknown_name_error(f"option of {self.name}", option, self.option_names)
            default = parameters[option].default
            check_option(base_name, option, value, hints.get(option, Any), default)
        merged = {**dict(self.options), **options}
        option_list = ",".join(f"{name}={value}" for name, value in merged.items())
        return replace(self, name=f"{base_name}({option_list})", options=tuple(merged.items()))

    def with_task(self, task: Task) -> "Space":
        """Return the same space with another default task."""
        return replace(self, hooks=replace(self.hooks, task=task))

    # -------------------------------------------------------------------------------- choices

    def list_decisions(self, chooser: Chooser, task: Task | None = None) -> Decisions:
        """Return the decisions of one run of the function.

        The function runs on the meta device, so tensors have shapes but no memory.
        """
        decisions, _ = self._run_without_building(chooser, task or self.task)
        return decisions

    def sample(self, seed: Seed = None) -> Arch:
        """Sample a valid architecture.

        By default all options of a choice are equally likely, and invalid combinations are sampled
        again. A space may define another distribution.

        Args:
            seed: An int, a numpy Generator, which advances, or None for a random result.

        Raises:
            UsageError: No valid architecture was found in 10,000 attempts, or the function of the
                user does not always return the same network for the same choices.

        Example:
            >>> space = load_space("nasbench201")
            >>> space.sample(seed=0) == space.sample(seed=0)
            True
        """
        rng = as_generator(seed)
        sample = self.hooks.sample or Space.sample_uniformly
        arch = self._retry_until_valid(lambda _: sample(self, rng), "valid architecture")
        self._require_repeatable(arch)
        return arch

    def sample_uniformly(self, rng: np.random.Generator) -> Arch:
        """Sample with equal probabilities of all options of a choice; may raise `InvalidArch`."""
        decisions = self.list_decisions(make_random_chooser(rng))
        return self._make_arch_from_decisions(decisions)

    def _require_repeatable(self, arch: Arch) -> None:
        """Check the function of a user with its first samples, see `repeatability.py`."""
        if not self._begin_check(_checked_samples):
            return

        def run(chooser: Chooser) -> tuple[Decisions, nn.Module | None]:
            return self._run_without_building(chooser, self.task)

        try:
            difference = find_difference(run, arch.genes)
        except InvalidArch as error:
            # The function accepted the same choices when the architecture was sampled.
            difference = f"raised InvalidArch({str(error)!r}) in one run and not in another"
        if difference:
            raise self._make_repeatability_error(arch, difference)

    def _run_without_building(
        self, chooser: Chooser, task: Task
    ) -> tuple[Decisions, nn.Module | None]:
        """Run the function on the meta device; the network is None if it returns a builder.

        A builder may crash its process, so only workers call it.

        Raises:
            UserCodeError: The function raised an error.
        """
        try:
            decisions, result = self._run_network_function(chooser, task, device="meta")
        except UntrainedError:
            raise
        except (Exception, SystemExit) as error:
            subject = f"the space {self.name}"
            raise make_user_code_error(subject, "when asked for its choices", error) from error
        if isinstance(result, nn.Module):
            return decisions, result
        return decisions, None

    def _require_repeatable_builder(
        self, arch: Arch, network: nn.Module, builder: NetworkBuilder
    ) -> None:
        """Check that the builder of a user's function returns the same network again."""
        if not self._begin_check(_checked_builders):
            return
        # The check must not change the random numbers that are drawn after it.
        with torch.random.fork_rng(devices=[]), _create_tensors_on("meta"):
            second_network = builder()
        difference = compare_networks(network, second_network)
        if difference:
            raise self._make_repeatability_error(arch, difference)

    def _begin_check(self, checks: "WeakKeyDictionary[NetworkFunction, Counter[str]]") -> bool:
        """Return whether the function needs another check; if it does, count the check."""
        if self.is_builtin:
            return False
        counter = checks.setdefault(self.network, Counter())
        if counter[self.name] == _CHECKS_PER_SPACE:
            return False
        counter[self.name] += 1
        return True

    def _make_repeatability_error(self, arch: Arch, difference: str) -> UsageError:
        return UsageError(
            f"the space {self.name} is not repeatable: for {arch} it {difference}; "
            "use choose() instead of random numbers"
        )

    def mutate(self, arch: Arch, seed: Seed = None) -> Arch:
        """Return another architecture near `arch`.

        By default one choice changes, and choices that no longer fit are sampled again. If no
        change of one choice is valid, more choices change. A space may define another mutation.

        Args:
            arch: The parent.
            seed: An int, a numpy Generator, which advances, or None for a random result.

        Returns:
            An architecture that differs from `arch`.

        Raises:
            NoAlternativeError: All choices of `arch` have a single option.
            UsageError: No valid neighbour was found in 10,000 attempts.

        Example:
            >>> space = load_space("nasbench201")
            >>> parent = space.sample(seed=0)
            >>> space.mutate(parent, seed=1) == parent
            False
        """
        self._require_arch(arch)
        rng = as_generator(seed)
        mutate = self.hooks.mutate

        def attempt(attempts: int) -> Arch:
            if mutate is not None:
                child = mutate(self, arch, rng)
            else:
                child = self.change_choices(arch, rng, 1 + attempts // _ATTEMPTS_PER_CHANGE)
            if child == arch:
                raise InvalidArch("a mutation must change something")
            return child

        return self._retry_until_valid(attempt, f"neighbour of {arch}")

    def change_choices(self, arch: Arch, rng: np.random.Generator, count: int = 1) -> Arch:
        """Change `count` choices; dependent choices that no longer fit are sampled again.

        Raises:
            NoAlternativeError: All choices of `arch` have a single option.
        """
        decisions = self.list_decisions(make_replay_chooser(arch.genes, str(arch)))
        changeable = [decision for decision in decisions if decision.options.has_alternatives]
        if not changeable:
            raise NoAlternativeError(f"{arch} has no choice that could change")
        genes = dict(arch.genes)
        for index in rng.choice(len(changeable), min(count, len(changeable)), replace=False):
            decision = changeable[index]
            genes[decision.name] = decision.options.mutate(decision.value, rng)
        return self._make_arch_from_decisions(
            self.list_decisions(make_inheriting_chooser([genes], rng))
        )

    def cross(self, first: Arch, second: Arch, seed: Seed = None) -> Arch:
        """Return a child that takes every choice from one of two parents.

        Choices that fit neither parent are sampled.

        Args:
            first: One parent.
            second: The other parent.
            seed: An int, a numpy Generator, which advances, or None for a random result.

        Raises:
            UsageError: No valid child was found in 10,000 attempts.
        """
        self._require_arch(first)
        self._require_arch(second)
        rng = as_generator(seed)
        parents = [dict(first.genes), dict(second.genes)]

        def attempt(_: int) -> Arch:
            decisions = self.list_decisions(make_inheriting_chooser(parents, rng))
            return self._make_arch_from_decisions(decisions)

        return self._retry_until_valid(attempt, f"child of {first} and {second}")

    def suggest(self, trial: Trial) -> Arch:
        """Let a trial of Optuna make the choices, to search this space in a study of your own.

        A choice becomes a categorical parameter, a range an integer or a float parameter.

        Args:
            trial: An `optuna.Trial`. Optuna requires that a choice has the same options whenever
                it is made.

        Returns:
            The suggested architecture.

        Raises:
            InvalidArch: The suggested choices do not fit together. Catch it in the objective and
                raise `optuna.TrialPruned`.

        Example:
            >>> import optuna
            >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
            >>> space = load_space("mlp")
            >>> study = optuna.create_study()
            >>> study.optimize(lambda trial: space.suggest(trial)["depth"], n_trials=2)
            >>> set(study.best_params) >= {"depth", "width1", "activation"}
            True
        """
        # `list_decisions` would report errors of Optuna as errors of the space.
        chooser = make_trial_chooser(trial)
        decisions, _ = self._run_network_function(chooser, self.task, device="meta")
        return self._make_arch_from_decisions(decisions)

    def list_scaled(self, arch: Arch) -> list[Arch]:
        """Return the same architecture at every scale, smallest first.

        The choice `scale` takes each of its options, including those that are never sampled. Of a
        long range it takes a selection, and the number that `arch` has. Options that do not fit the
        other choices of the architecture are skipped.

        Raises:
            UsageError: The space has no `scale`, `arch` does not have this choice, or its options
                are not numbers.
        """
        options = self._list_scale_options(arch)
        scaled_archs = []
        for option in sorted(options, key=float):
            genes = []
            for name, value in arch.genes:
                if name == self.scale:
                    value = option
                genes.append((name, value))
            try:
                decisions = self.list_decisions(make_replay_chooser(tuple(genes), str(arch)))
            except InvalidArch:
                continue
            scaled_archs.append(self._make_arch_from_decisions(decisions))
        return scaled_archs

    def _list_scale_options(self, arch: Arch) -> list[Choice]:
        decisions = self.list_decisions(make_replay_chooser(arch.genes, str(arch)))
        for decision in decisions:
            if decision.name == self.scale:
                options = decision.options.list_representative_values()
                if any(isinstance(option, str) for option in options):
                    raise UsageError(
                        f"space {self.name}: the options of scale={self.scale!r} are not numbers; "
                        "name a choice with numbers as options"
                    )
                if decision.value not in options:
                    options.append(decision.value)
                return options
        choice_list = ", ".join(decision.name for decision in decisions)
        raise UsageError(
            f"space {self.name}: scale={self.scale!r} is not a choice of {arch}; "
            f"name a choice that every architecture has: {choice_list}"
        )

    def enumerate(self) -> Iterator[Arch]:
        """Iterate over all architectures, each once, in lexicographic order of the options."""
        # Without a canonical form, different combinations are different architectures.
        seen: set[Arch] = set()
        for decisions in enumerate_decisions(self.list_decisions):
            arch = self._make_arch_from_decisions(decisions)
            if arch not in seen:
                yield arch
            if self.hooks.canonical:
                seen.add(arch)

    def __iter__(self) -> Iterator[Arch]:
        return self.enumerate()

    def _retry_until_valid(self, attempt: Callable[[int], Arch], target: str) -> Arch:
        """Call `attempt` with 0, 1, 2, ... until it does not raise `InvalidArch`."""
        for attempts in range(_MAX_ATTEMPTS):
            try:
                return attempt(attempts)
            except InvalidArch as error:
                last_error = error
        raise UsageError(
            f"space {self.name}: no {target} in {_MAX_ATTEMPTS} attempts; "
            f"the last attempt failed: {last_error}"
        )

    # ------------------------------------------------------------------------------- notation

    def parse(self, text: str) -> Arch:
        """Read an architecture from its text form, `str(arch)`.

        Raises:
            UsageError: The text is malformed (the message marks the position), or the architecture
                is not in the space.
        """
        if not isinstance(text, str):
            example = str(self.sample(0))
            raise UsageError(
                f"{show_value(text)} is not an architecture; give an architecture string, such as "
                f"{example!r}"
            )
        try:
            genes = self.hooks.notation.parse(text)
        except ValueError as error:
            # Raised by `int`, for instance for a number of more than 4,300 digits.
            raise UsageError(
                f"{show_value(text)} is not an architecture of {self.name}: {error}"
            ) from error
        return self.make_arch(genes, text)

    def make_arch(self, genes: Genes, label: str = "") -> Arch:
        """Return the architecture with these genes.

        Args:
            genes: Names and values of all choices.
            label: Name of the architecture in error messages; by default its genes.

        Raises:
            UsageError: A choice is missing, unknown, given twice or has a value that is not
                allowed.
        """
        label = label or PairNotation().format(genes)
        try:
            decisions = self.list_decisions(make_replay_chooser(genes, label))
        except InvalidArch as error:
            raise self._make_membership_error(label, error) from error
        names = [name for name, _ in genes]
        choice_names = [decision.name for decision in decisions]
        for name in names:
            if name not in choice_names:
                name_list = ", ".join(choice_names) or "none at all"
                raise UsageError(f"{label}: there is no choice {name!r} here, only {name_list}")
            if names.count(name) > 1:
                raise UsageError(f"{label} has {name!r} twice; keep one of them")
        return self._make_arch_from_decisions(decisions)

    def _require_arch(self, arch: object) -> None:
        if not isinstance(arch, Arch):
            raise UsageError(
                f"{show_value(arch)} is not an Arch; "
                "space.parse(text) and space.sample(seed) return one"
            )

    def _make_arch_from_decisions(self, decisions: Decisions) -> Arch:
        genes: Genes = tuple((decision.name, decision.value) for decision in decisions)
        if self.hooks.canonical:
            genes = self.hooks.canonical(genes)
        return Arch(self.name, genes, self.hooks.notation.format(genes))

    def _make_membership_error(self, label: str, reason: InvalidArch) -> UsageError:
        return UsageError(f"{label} is not in {self.name}: {reason}")

    # ------------------------------------------------------------------------------- networks

    def build(self, arch: Arch, task: Task | None = None, device: str = "cpu") -> nn.Module:
        """Build the network of an architecture, with weights from torch's global random state.

        Args:
            arch: An architecture of this space.
            task: Input shape and number of classes; by default the task of the space.
            device: Where the weights are created. "meta" allocates nothing.

        Raises:
            UsageError: The architecture is not in the space, or does not fit the task, or the
                function of the user does not always return the same network.
        """
        self._require_arch(arch)
        chooser = make_replay_chooser(arch.genes, str(arch))
        try:
            _, result = self._run_network_function(chooser, task or self.task, device)
        except InvalidArch as error:
            raise self._make_membership_error(str(arch), error) from error
        if isinstance(result, nn.Module):
            return result
        with _create_tensors_on(device):
            network = result()
        if not isinstance(network, nn.Module):
            raise UsageError(
                f"the space {self.name} builds {show_value(network)} instead of a network; the "
                "function that it returns must return an nn.Module"
            )
        if device != "meta":
            self._require_repeatable_builder(arch, network, result)
        return network

    def counts(self, arch: Arch, task: Task | None = None) -> Counts | None:
        """Return parameters and multiply-adds without building; None if there is no formula."""
        if self.hooks.counts is None:
            return None
        return self.hooks.counts(self, arch, task or self.task)

    def known_designs(self, task: Task | None = None) -> dict[str, Arch]:
        """Return the known designs of this space for a task, by name; empty if it has none.

        Args:
            task: The task; by default that of the space.

        Raises:
            UsageError: A design is not in the space.
        """
        if self.hooks.known_designs is None:
            return {}
        try:
            texts = self.hooks.known_designs(task or self.task)
        except (Exception, SystemExit) as error:
            subject = f"the space {self.name}"
            raise make_user_code_error(
                subject, "when asked for its known designs", error
            ) from error
        return {name: self.parse(text) for name, text in texts.items()}

    def draw(self, arch: Arch, task: Task | None = None) -> Diagram:
        """Return a diagram of `arch`: its cells or stages, or the layers of its network.

        A notebook shows the diagram as a picture, and `save` writes it to an SVG file. A space
        without a `draw` hook shows the network for `task` with its skips and branches. If the
        network cannot run on the meta device, or is too large, it shows a list of the layers.

        Example:
            >>> space = load_space("nasbench201")
            >>> space.draw(space.sample(seed=0)).save("cell.svg").name
            'cell.svg'
        """
        if self.hooks.draw is not None:
            return self.hooks.draw(arch)
        network = self.build(arch, task, device="meta")
        graph = trace_layer_graph(network, (task or self.task).input_shape)
        if graph is None:
            return list_layers(network)
        return graph

    # Supernets have different interfaces (`Supernet`, elastic ones), hence `Any`.
    def supernet(self, task: Task | None = None, device: str = "cpu") -> Any:
        """Build the supernet; its `subnet(arch)` is the network of `arch` with shared weights.

        Raises:
            UsageError: The space has no supernet.
        """
        if self.hooks.supernet is None:
            names = ", ".join(name for name, space in SPACES.items() if space.has_supernet)
            raise UsageError(f"{self.name} has no supernet; these have: {names}")
        with _create_tensors_on(device):
            return self.hooks.supernet(task or self.task, **dict(self.options))

    def _run_network_function(
        self, chooser: Chooser, task: Task, device: str
    ) -> tuple[Decisions, nn.Module | NetworkBuilder]:
        def run(choose: Choose) -> nn.Module | NetworkBuilder:
            with _create_tensors_on(device):
                result = self.network(choose, task, **dict(self.options))
            # Checked in every run, because a function may lack a `return` in one branch only.
            if not callable(result):
                raise UsageError(
                    f"the function of the space {self.name} returned {show_value(result)} instead "
                    "of a network; add `return` in front of the network"
                )
            return result

        return record_decisions(self.name, chooser, run)


def _create_tensors_on(device: str) -> AbstractContextManager[object]:
    """Return a context in which new tensors are created on `device`."""
    # Entering the context takes a seventh of the time of building a network, so it is skipped if
    # it would change nothing.
    if torch.get_default_device() == torch.device(device):
        return nullcontext()
    if device == "meta":
        return _MetaContext()
    return torch.device(device)


class _MetaContext(DeviceContext):
    """Create tensors on the meta device, and skip `torch.nn.init`.

    Tensors there have no values, so nothing is lost. It takes a third of the time of enumerating a
    space.
    """

    def __init__(self) -> None:
        super().__init__("meta")

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in _INITIALISERS:
            # These functions pass their tensor by name.
            tensor = args[0] if args else (kwargs or {}).get("tensor")
            if isinstance(tensor, torch.Tensor) and tensor.is_meta:
                return tensor
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]


@overload
def space(network: NetworkFunction) -> Space: ...


@overload
def space(
    *,
    task: Task | Callable[..., Task] = ...,
    notation: Notation = ...,
    canonical: Callable[[Genes], Genes] = ...,
    sample: SampleFunction = ...,
    mutate: MutateFunction = ...,
    draw: Callable[[Arch], Diagram] = ...,
    size: int | Callable[..., int] = ...,
    supernet: Callable[..., Any] = ...,
    counts: CountsFunction = ...,
    scale: str = ...,
    known_designs: DesignsFunction = ...,
) -> Callable[[NetworkFunction], Space]: ...


def space(
    network: NetworkFunction | None = None, **hooks: Any
) -> Space | Callable[[NetworkFunction], Space]:
    """Turn a function `(choose, task) -> nn.Module` into a `Space` with the name of the function.

    Use it as `@space` or as `@space(task=..., size=...)`.

    Args:
        network: The function. Its keyword arguments become the options of the space.
        **hooks: Any of the following, all optional.

            * `task`: default task, or a function of the options that returns it.
            * `notation`: object with `format(genes)` and `parse(text)`; default `name=value` pairs.
            * `canonical`: function that maps the genes of equal architectures to the same genes.
            * `sample`: function `(space, rng) -> Arch`; default: all options equally likely.
            * `mutate`: function `(space, arch, rng) -> Arch`; default: change one choice. Like
              `sample` it may raise `InvalidArch`; then it is called again.
            * `draw`: function `(arch) -> Diagram`; default: the graph of the network.
            * `size`: number of architectures, or a function of the options that returns it.
            * `supernet`: function `(task, **options)` that returns a module with `subnet(arch)`.
            * `counts`: function `(space, arch, task) -> Counts`, an exact formula for parameters
              and multiply-adds. It returns None for a task that it does not cover.
            * `scale`: name of a choice with numbers as options; networks grow with it. If a search
              limits the size of networks, it sets this choice as large as the limits allow.
            * `known_designs`: function `(task)` that returns architectures by name, as text. A
              search that ends with trainings compares its candidates with them.

    Returns:
        The space, or a decorator if only hooks are given.

    Example:
        >>> @space(size=3)
        ... def widths(choose, task):
        ...     width = choose("width", [8, 16, 32])
        ...     return nn.Sequential(nn.Flatten(), nn.LazyLinear(width))
        >>> len(list(widths))
        3
    """

    def make_space(function: NetworkFunction) -> Space:
        return Space(function.__name__, function, SpaceHooks(**hooks))

    if network is None:
        return make_space
    return make_space(network)


@overload
def register_space(member: Space) -> Space: ...


@overload
def register_space(*, version: int) -> Callable[[Space], Space]: ...


def register_space(
    member: Space | None = None, *, version: int = 1
) -> Space | Callable[[Space], Space]:
    """Register a space of this package; a decorator above `@space`.

    Args:
        member: The space.
        version: Increase it when networks of the space change, so that stored scores and finished
            trainings of the former networks are not reused.
    """

    def register(new_space: Space) -> Space:
        return SPACES.add(new_space.name, replace(new_space, version=version))

    if member is None:
        return register
    return register(member)
