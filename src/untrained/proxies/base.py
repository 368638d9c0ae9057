"""The class `Proxy` and the decorators that create proxies from functions.

A proxy is a function `(Probe) -> float` that reads like its equation, together with facts about it.
The Probe takes measurements, and the proxy combines them. A proxy does not depend on architectures,
data or devices.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import Parameter, getdoc, signature
from typing import Annotated, Any, Literal, TypeGuard, get_args, get_origin

import torch
from torch import Tensor

from untrained.errors import Unscorable, UsageError, make_unknown_name_error
from untrained.names import parse_call
from untrained.options import Between, check_option, read_option_hints
from untrained.probe import Probe
from untrained.proxies.declared_needs import restrict_probe
from untrained.quantities import MAX_SAMPLES
from untrained.registry import Registry
from untrained.user_code import fingerprint_function

PROXIES: Registry["Proxy"] = Registry("proxy")
ANY_LAYERS = "any"
FINGERPRINT_DIGITS = 8  # hexadecimal digits of the fingerprint of a user's file
Samples = Annotated[int, Between(1, MAX_SAMPLES)]


@dataclass(frozen=True)
class Proxy:
    """A scoring function and the facts that a user needs before trusting it.

    The docstring of the function provides the rest: a summary (first line), the formula (indented
    lines) and notes on where the paper and the authors' code differ (all other lines).

    Attributes:
        name: Public name, the name of the function.
        function: Computes the score, `(probe, **options) -> float`; for an aggregate see
            `aggregate`.
        paper: Where the proxy comes from.
        higher_is_better: Whether a larger score means a better network.
        aspects: Aspects of a network that the score reflects: expressivity, trainability,
            generalisation or size; several are separated by commas. A proxy that reflects none of
            them says "nothing", as `random` does, and one that is given other proxies as options
            says whose aspects it has, as `harmonic_mean` does.
        needs: What it needs besides the network: any of "data", "labels", "gradients".
        samples: Number of samples that it reads.
        version: Increased when the formula changes.
        cost: Multiply-adds, in units of one forward pass of these samples. A backward pass costs 2.
        layers: What a network must contain for the score to be meaningful.
        options: Keyword arguments that differ from the function's defaults.
        parts: Names of the members of an aggregate, which are the proxies that it combines.
        reference_size: Number of random architectures of the space that an aggregate compares a
            candidate with; 0 for one that compares the candidates with each other.
        code: Fingerprint of the user's file that the proxy comes from, so that scores of an edited
            proxy are not mistaken for scores of the previous version.
        default_samples: Value of `samples` without options; None if no options were set.
    """

    name: str
    function: Callable[..., Any]
    paper: str
    higher_is_better: bool
    aspects: str
    needs: tuple[str, ...]
    samples: int
    version: int
    cost: float = 1
    layers: str = ANY_LAYERS
    options: tuple[tuple[str, object], ...] = ()
    parts: tuple[str, ...] = ()
    reference_size: int = 0
    code: str = ""
    default_samples: int | None = field(default=None, compare=False)

    def __call__(self, probe: Probe) -> float:
        """Compute the score on the first `samples` samples of the probe's batch.

        Args:
            probe: The network and the batch.

        Returns:
            The score. The probe caches it, so a second call costs nothing.

        Raises:
            Unscorable: If the network has no score. If the output of a network does not depend on
                its input, the failure is `disconnected`, even if another failure came first.
            UsageError: If this is an aggregate, which has no score for a single network.
        """
        if self.parts:
            members = ", ".join(self.parts)
            raise UsageError(f"{self.name} ranks candidates by {members}; one network has no rank")
        # Scores depend on the samples, so they are cached in the probe of the first samples.
        view = probe.first(self.samples)
        key = (self.function, self.label)
        if key not in view.scores:
            view.scores[key] = self._compute_score(view)
        return view.scores[key]

    def _compute_score(self, probe: Probe) -> float:
        try:
            value = self.function(
                restrict_probe(probe, self.name, self.needs), **dict(self.options)
            )
        except Unscorable as error:
            # `unsupported` means that this code lacks a rule, not that the network is broken. Any
            # other failure may be a symptom of a disconnected network.
            if error.kind != "unsupported":
                self._raise_root_cause(probe, error.kind)
            raise
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            self._raise_root_cause(probe)
            raise
        self._require_connected(probe)
        if isinstance(value, Tensor):
            value = value.detach()
        return float(value)

    def _raise_root_cause(self, probe: Probe, reported_kind: str | None = None) -> None:
        """Raise the cause of a failure, if it is NaNs or an output that ignores the input.

        Args:
            probe: The network and the batch.
            reported_kind: Kind of the failure. If the cause is of the same kind, nothing is raised,
                because the failure has the better detail. None if the failure has no kind.
        """
        try:
            self._require_connected(probe)
        except Unscorable as cause:
            if cause.kind != reported_kind:
                raise

    def _require_connected(self, probe: Probe) -> None:
        if "data" in self.needs:
            probe.require_connected()

    def with_options(self, **options: Any) -> "Proxy":
        """Return the same proxy with other options.

        Args:
            **options: Keyword arguments of the function, such as `variant="published"`, and
                `samples`, which every proxy accepts.

        Raises:
            UsageError: If an option or its value is unknown.
        """
        samples = options.pop("samples", self.samples)
        for option, value in options.items():
            self._check_option(option, value)
        check_option(self.name, "samples", samples, Samples, self.samples)
        merged = {**dict(self.options), **options}
        return replace(
            self,
            options=tuple(sorted(merged.items())),
            samples=samples,
            default_samples=self.default_samples or self.samples,
        )

    def _check_option(self, option: str, value: object) -> None:
        choices = self.choices
        if option not in choices:
            raise make_unknown_name_error(f"option of {self.name}", option, [*choices, "samples"])
        allowed = choices[option]
        if allowed and value not in allowed:
            listing = ", ".join(map(str, allowed))
            raise UsageError(f"{self.name} has no {option} {value!r}; choose from: {listing}")
        hint = read_option_hints(self.function).get(option, Any)
        check_option(
            self.name, option, value, hint, signature(self.function).parameters[option].default
        )

    @property
    def choices(self) -> dict[str, tuple[object, ...]]:
        """Options of the function and their allowed values; an empty tuple allows any value."""
        hints = read_option_hints(self.function)
        parameters = list(signature(self.function).parameters)
        choices: dict[str, tuple[object, ...]] = {}
        for name in parameters[1:]:  # the first one is the probe
            hint = hints.get(name)
            choices[name] = ()
            if get_origin(hint) is Literal:
                choices[name] = get_args(hint)
        return choices

    @property
    def label(self) -> str:
        """Name and options, such as `dextr(variant=published)`."""
        options = dict(self.options)
        if self.default_samples not in (None, self.samples):
            options["samples"] = self.samples
        if not options:
            return self.name
        arguments = ",".join(f"{name}={value}" for name, value in options.items())
        return f"{self.name}({arguments})"

    @property
    def measure(self) -> str:
        """Key under which records are stored: label, versions, and fingerprint of a user's file.

        A changed formula is a new version, and a changed user file is another fingerprint, so old
        records are never mistaken for new ones. The key also contains the versions of all proxies
        that this one calls, such as `harmonic_mean(a=meco)@1+meco@3`, except for version 1.
        """
        key = f"{self.label}@{self.version}"
        for name, version in self._find_dependency_versions().items():
            if version != 1:
                key += f"+{name}@{version}"
        if self.code:
            key = f"{key}-{self.code}"
        return key

    def _find_dependency_versions(self) -> dict[str, int]:
        """Return the versions of the proxies that this one depends on, directly or indirectly.

        These are the members of an aggregate, and the registered proxies whose names are values of
        options, such as the option `a` of `harmonic_mean`.
        """
        options = {**_read_defaults(self.function), **dict(self.options)}
        dependencies = [_load_member(text) for text in self.parts]
        dependencies += [PROXIES[value] for value in options.values() if _is_proxy_name(value)]
        versions: dict[str, int] = {}
        for dependency in dependencies:
            versions[dependency.name] = dependency.version
            versions |= dependency._find_dependency_versions()
        return versions

    @property
    def about(self) -> str:
        """One-line summary, the first line of the function's docstring."""
        docstring = getdoc(self.function) or ""
        return docstring.partition("\n")[0]

    @property
    def formula(self) -> str:
        """The indented lines of the docstring."""
        return "\n".join(line.strip() for line in self._list_docstring_lines(indented=True))

    @property
    def notes(self) -> str:
        """The rest of the docstring: where paper and code differ, and which of them we follow."""
        return " ".join(line.strip() for line in self._list_docstring_lines(indented=False))

    def _list_docstring_lines(self, indented: bool) -> list[str]:
        """Return the lines after the first one that are indented, or those that are not."""
        docstring = getdoc(self.function) or ""
        lines = []
        for line in docstring.splitlines()[1:]:
            if line.strip() and line.startswith(" ") == indented:
                lines.append(line)
        return lines


@cache
def _read_defaults(function: Callable[..., Any]) -> dict[str, object]:
    """Return the defaults of the options of a proxy's function."""
    defaults = {}
    for name, parameter in signature(function).parameters.items():
        if parameter.default is not Parameter.empty:
            defaults[name] = parameter.default
    return defaults


def _is_proxy_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value in PROXIES


def proxy(
    *,
    paper: str = "",
    higher_is_better: bool = True,
    aspects: str = "",
    needs: tuple[str, ...] = ("data",),
    samples: int = 1,
    version: int = 1,
    cost: float = 1,
    layers: str = ANY_LAYERS,
) -> Callable[[Callable[..., float]], Proxy]:
    """Turn a function `(probe, **options) -> float` into a `Proxy` of the same name.

    Args:
        paper: Where the formula comes from.
        higher_is_better: Whether a larger score means a better network.
        aspects: Aspects of a network that the score reflects, such as "expressivity, size".
        needs: What the function needs besides the network: any of "data", "labels", "gradients".
        samples: Number of samples that it reads.
        version: Increase it when the formula changes: stored scores are then computed again.
        cost: Multiply-adds, in units of one forward pass of these samples.
        layers: What a network must contain for the score to be meaningful.

    Returns:
        A decorator.

    Example:
        >>> import untrained as ut
        >>> @ut.proxy(needs=("data", "labels", "gradients"), samples=32)
        ... def gradient_size(probe):
        ...     "Norm of all loss gradients, summed."
        ...     return sum(float(g.norm()) for g in probe.gradients.values())
        >>> gradient_size.label
        'gradient_size'
    """

    def make_proxy(function: Callable[..., float]) -> Proxy:
        return Proxy(
            # A function may end with an underscore to avoid a clash with a Python keyword.
            name=function.__name__.rstrip("_"),
            function=function,
            paper=paper,
            higher_is_better=higher_is_better,
            aspects=aspects,
            needs=needs,
            samples=samples,
            version=version,
            cost=cost,
            layers=layers,
            # Proxies of installed packages, as of this one, are identified by their version.
            code=fingerprint_function(function, skip_installed=True)[:FINGERPRINT_DIGITS],
        )

    return make_proxy


def aggregate(
    *,
    parts: tuple[str, ...],
    paper: str,
    aspects: str,
    reference_size: int = 0,
    version: int = 1,
) -> Callable[[Callable[..., Any]], Proxy]:
    """Turn a function of the scores of several proxies into a `Proxy` that compares networks.

    Such a proxy is an aggregate; the proxies whose scores it combines are its members.

    Without a reference, the function receives one list per member. The list contains rank / m for
    each of the m candidates: the worst has rank 1, the best has rank m, and ties share their mean
    rank. The function returns one score per candidate.

    With a reference, the function receives the scores of the reference architectures by member and
    returns a `Consensus`, which scores candidates one by one.

    Args:
        parts: Names of the members, with options in brackets.
        paper: Where the formula comes from.
        aspects: Aspects of a network that the score reflects.
        reference_size: Number of reference architectures, which are sampled from the space; 0 for
            an aggregate without a reference.
        version: Increase it if the formula changes, so that stored scores are not reused.
    """
    members = [_load_member(text) for text in parts]

    def make_proxy(function: Callable[..., Any]) -> Proxy:
        # A dictionary instead of a set, because it keeps the order.
        needs: dict[str, None] = {}
        for member in members:
            needs.update(dict.fromkeys(member.needs))
        return Proxy(
            name=function.__name__,
            function=function,
            paper=paper,
            higher_is_better=True,
            aspects=aspects,
            needs=tuple(needs),
            samples=max(member.samples for member in members),
            version=version,
            cost=sum(member.cost for member in members),
            parts=parts,
            reference_size=reference_size,
        )

    return make_proxy


def list_members(aggregate_proxy: Proxy) -> list[Proxy]:
    """Return the members of an aggregate; an empty list for an ordinary proxy.

    Without a reference, members that read data use as many samples as the aggregate. With a
    reference, each member uses its own number of samples.
    """
    members = []
    for text in aggregate_proxy.parts:
        member = _load_member(text)
        if "data" in member.needs and not aggregate_proxy.reference_size:
            member = member.with_options(samples=aggregate_proxy.samples)
        members.append(member)
    return members


def _load_member(text: str) -> Proxy:
    """Return a registered proxy, with the options that the text contains."""
    name, options = parse_call(text)
    member = PROXIES[name]
    if options:
        member = member.with_options(**options)
    return member


def register_proxy(member: Proxy) -> Proxy:
    """Register a proxy of this package; a decorator above `@proxy`."""
    return PROXIES.add(member.name, member)
