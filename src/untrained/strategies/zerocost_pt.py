"""Zero-Cost-PT (Xiang et al., AAAI 2023; arXiv:2106.08871): prune a supernet to one architecture.

    S             score of the supernet by a proxy, with the sign for which higher is better
    S without o   score of the supernet with option o removed from one choice
    operations    visit the choices in random order; keep the option o with the lowest
                  `S without o`, that is the option whose removal hurts most, and remove all others
    topology      on DARTS, then visit the nodes in random order; remove the edge e with the highest
                  `S without e`, that is the edge whose removal hurts least, until two are left
    validation    each pass over the supernet gives one proposal; the search scores the proposals
                  with any proxy and keeps the best

Every choice and every node uses a new mini-batch. An example with validation by 100 mini-batches:
`untrained search --strategy zerocost_pt --proxy naswot --seeds 100`. Presets:

    (default)    10 proposals; operations and edges by naswot on 64 samples, as the authors do
    dextr        the search of Dextr: operations by dextr, edges by naswot on 16 samples; validate
                 with `--proxy dextr`

The authors' code differs in three ways. It decides about an edge of the normal cell and one of the
reduction cell in one step; we take one step per edge. It scores in evaluation mode with fresh batch
norm statistics; we use batch statistics, as everywhere in this package. While it scores an edge, it
restores the edges of the same node that were removed before; we leave them out.

In NAS-Bench-1Shot1 parents are choices like operations. Not every combination of choices is a
member of that space, so use `members=tight`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from untrained.benchmarks.statistics import orient_score
from untrained.data import DataSource
from untrained.data.source import fingerprint_batch
from untrained.errors import Unscorable, UsageError, make_unknown_name_error
from untrained.probe import Probe
from untrained.probe.guard import fastest_kernels
from untrained.proxies import Proxy, load_proxy
from untrained.runs.step_log import StepLog
from untrained.spaces import Space
from untrained.spaces.core.supernet import Supernet
from untrained.spaces.darts.supernet import DartsSupernet
from untrained.strategies.base import Fitness, NewArchSampler, Strategy, register_strategy
from untrained.strategies.limits import ConstrainedSpace
from untrained.strategies.supernets import (
    as_constrained,
    as_module,
    draw_seed,
    make_first_valid_arch,
    make_mixed_supernet,
    reset_mixture,
)
from untrained.types import Arch, Batch, Record

# The proxies for operations and for edges, by preset.
PRESETS = {"": ("naswot", "naswot"), "dextr": ("dextr", "naswot(samples=16)")}
# Number of input edges of a DARTS node.
EDGES_PER_NODE = 2


@dataclass(frozen=True, slots=True)
class SupernetDecision:
    """A decision at one choice or one node.

    Attributes:
        name: Name of the choice or node.
        without: Score of the supernet without each option, or each edge; None if it has no score.
        outcome: The option that was kept, or the edge that was removed.
    """

    name: str
    without: tuple[tuple[str, float | None], ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """One pass over the supernet.

    Attributes:
        arch: The proposed architecture, or None if it was rejected.
        decisions: The decisions that led to it.
        rejection: Why it was rejected: "proposed before", "outside of the space", the name of the
            limit that it violates, or the choice at which no option had a score.
    """

    arch: Arch | None
    decisions: tuple[SupernetDecision, ...]
    rejection: str = ""


@register_strategy
class ZeroCostPT(Strategy):
    """Prunes a supernet to one architecture per pass; the proxy then ranks the proposals.

    Args:
        space: A space with a supernet.
        rng: Random generator.
        fitness: Not used, because nothing is learned from records.
        source: Where mini-batches come from.
        device: Where the supernet computes.
        step_log: Where scores are kept, so that an interrupted search resumes.
        proposals: Number of passes over the supernet.
        operations: Proxy that chooses operations, instead of that of the preset.
        edges: Proxy that chooses edges, instead of that of the preset.
        preset: Name of published settings.
    """

    name = "zerocost_pt"
    needs = ("source",)
    ask_size = 1

    def __init__(
        self,
        space: Space | ConstrainedSpace,
        rng: np.random.Generator,
        fitness: Fitness | None = None,
        *,
        source: DataSource,
        device: str = "cpu",
        step_log: StepLog | None = None,
        proposals: int = 10,
        operations: str | Proxy | None = None,
        edges: str | Proxy | None = None,
        preset: Literal["", "dextr"] = "",
    ) -> None:
        if preset not in PRESETS:
            raise make_unknown_name_error("preset of zerocost_pt", preset, filter(None, PRESETS))
        if proposals < 1:
            raise UsageError("proposals of zerocost_pt must be at least 1")
        default_operations, default_edges = PRESETS[preset]
        self._operation_proxy = _load_single_proxy(operations or default_operations)
        self._edge_proxy = _load_single_proxy(edges or default_edges)
        self._space = as_constrained(space)
        self._rng = rng
        self._source = source
        self._device = device
        self._step_log = step_log or StepLog()
        self._remaining = proposals
        self.default_budget = proposals
        self._sampler = NewArchSampler(self._space)
        self._supernet: Supernet | None = None  # built by the first `ask`
        self.trace: list[Proposal] = []

    def ask(self, n: int) -> list[Arch]:
        """Make up to n proposals. Repeated ones, and those that violate a limit, are rejected."""
        if self._supernet is None:
            seed = draw_seed(self._rng)
            self._supernet = make_mixed_supernet(self._space, seed, self._device, "zerocost_pt")
        archs: list[Arch] = []
        while len(archs) < n and self._remaining:
            self._remaining -= 1
            proposal = self._make_proposal(self._supernet)
            self.trace.append(proposal)
            if proposal.arch is not None:
                archs.append(proposal.arch)
        if not self._remaining and not any(proposal.arch for proposal in self.trace):
            reasons = ", ".join(dict.fromkeys(proposal.rejection for proposal in self.trace))
            raise UsageError(
                f"zerocost_pt: all {len(self.trace)} proposals for {self._space.name} "
                f"were rejected: {reasons}"
            )
        return archs

    def tell(self, records: Sequence[Record]) -> None:
        """Do nothing: the strategy does not learn from records."""

    # -------------------------------------------------------------------------------- a proposal

    def _make_proposal(self, supernet: Supernet) -> Proposal:
        decisions: list[SupernetDecision] = []
        self._step_log.begin_proposal(_count_scores(supernet))
        try:
            # `extend` appends one by one, so that decisions before a failure stay in the trace.
            decisions.extend(self._decide_all(supernet))
        except Unscorable as error:
            return Proposal(None, tuple(decisions), error.detail)
        # The mixture is one-hot now, so the first decoded architecture is the only one left.
        scores = {name: weights.tolist() for name, weights in supernet.mixture.items()}
        alternatives = next(supernet.decode_scores(scores))
        arch = make_first_valid_arch(self._space.space, alternatives)
        rejection = self._explain_rejection(arch)
        if rejection:
            arch = None
        return Proposal(arch, tuple(decisions), rejection)

    def _explain_rejection(self, arch: Arch | None) -> str:
        """Return why an architecture cannot be proposed; empty if it can."""
        if arch is None:
            return "outside of the space"
        if not self._sampler.mark_seen(arch):
            return "proposed before"
        if self._space.allows(arch):
            return ""
        violation = self._space.find_violation(arch)
        assert violation is not None
        return violation.limit

    def _decide_all(self, supernet: Supernet) -> Iterator[SupernetDecision]:
        """Prune the supernet to one architecture, and yield the decisions."""
        reset_mixture(supernet)
        for name in self._shuffle(_list_open_choices(supernet)):
            yield self._choose_option(supernet, name)
        if isinstance(supernet, DartsSupernet):
            yield from self._choose_edges(supernet)

    def _choose_option(self, supernet: Supernet, name: str) -> SupernetDecision:
        """Keep the option of a choice whose removal lowers the score most."""
        proxy = self._operation_proxy
        options = supernet.options[name]
        uniform_weights = supernet.mixture[name]
        scorer = self._make_scorer(supernet, proxy, name)
        scores: list[float | None] = []
        for index, option in enumerate(options):
            weights = uniform_weights.clone()
            weights[index] = 0.0
            supernet.mixture[name] = weights
            scores.append(scorer.score(f"without {option}"))
        kept = _find_first_worst(scores, proxy, name)
        one_hot = torch.zeros_like(uniform_weights)
        one_hot[kept] = 1.0
        supernet.mixture[name] = one_hot
        return SupernetDecision(name, tuple(zip(options, scores, strict=True)), options[kept])

    def _choose_edges(self, supernet: DartsSupernet) -> Iterator[SupernetDecision]:
        """Remove edges of every node, first those whose removal lowers the score least."""
        proxy = self._edge_proxy
        edges_by_node = _group_edges(supernet)
        for node in self._shuffle(list(edges_by_node)):
            edges = edges_by_node[node]
            scorer = self._make_scorer(supernet, proxy, node)
            while len(edges) > EDGES_PER_NODE:
                scores: list[float | None] = []
                for edge in edges:
                    weights = supernet.mixture[edge]
                    supernet.mixture[edge] = torch.zeros_like(weights)
                    scores.append(scorer.score(f"of {len(edges)} edges without {edge}"))
                    supernet.mixture[edge] = weights
                removed = edges[_find_last_best(scores, proxy, node)]
                yield SupernetDecision(node, tuple(zip(edges, scores, strict=True)), removed)
                supernet.mixture[removed] = torch.zeros_like(supernet.mixture[removed])
                edges = [edge for edge in edges if edge != removed]

    def _shuffle(self, names: list[str]) -> list[str]:
        return [names[index] for index in self._rng.permutation(len(names))]

    def _make_scorer(self, supernet: Supernet, proxy: Proxy, name: str) -> "_SupernetScorer":
        """Return a scorer with a new mini-batch for the choice or node of this name.

        One scorer is used for all options, so that they are compared on the same samples.
        """
        seed = draw_seed(self._rng)
        batch = self._source.batch(proxy.samples, seed)
        return _SupernetScorer(
            supernet,
            proxy,
            batch.to(self._device),
            self._source.task.loss,
            seed,
            self._step_log,
            key=f"proposal {len(self.trace)}, {fingerprint_batch(batch)}, {name}",
        )


@dataclass(frozen=True)
class _SupernetScorer:
    """Scores the supernet with its current mixture, always on the same batch.

    Attributes:
        supernet: The supernet.
        proxy: The proxy.
        batch: The batch.
        loss: Name of the loss.
        seed: Seed of the proxy.
        step_log: Where scores are kept.
        key: Prefix of the names of the scores in the step log: proposal, batch, and choice or node.
    """

    supernet: Supernet
    proxy: Proxy
    batch: Batch
    loss: str
    seed: int
    step_log: StepLog
    key: str

    def score(self, mixture: str) -> float | None:
        """Return the score, computed now or read from the step log.

        Args:
            mixture: Description of the current mixture, for the step log.

        Returns:
            The score, or None if there is none.
        """
        return self.step_log.get_or_compute(f"{self.key} {mixture}", self._measure)

    def _measure(self) -> float | None:
        model = as_module(self.supernet)
        try:
            with fastest_kernels(str(self.batch.inputs.device)):
                value = self.proxy(Probe(model, self.batch, loss=self.loss, seed=self.seed))
        except (Unscorable, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            return None
        if not np.isfinite(value):
            return None
        return value


def _load_single_proxy(name: str | Proxy) -> Proxy:
    """Load a proxy, and refuse an aggregate, which cannot score a single network."""
    proxy = load_proxy(name)
    if proxy.parts:
        raise UsageError(
            f"{proxy.name} compares candidates; zerocost_pt needs a proxy that scores one network"
        )
    return proxy


def _list_open_choices(supernet: Supernet) -> list[str]:
    """Return the choices that have more than one option."""
    return [name for name, options in supernet.options.items() if len(options) > 1]


def _group_edges(supernet: DartsSupernet) -> dict[str, list[str]]:
    """Return the edges by node; edges are called `node<-source`."""
    edges_by_node: dict[str, list[str]] = {}
    for edge in supernet.options:
        node = edge.partition("<-")[0]
        edges_by_node.setdefault(node, []).append(edge)
    return edges_by_node


def _count_scores(supernet: Supernet) -> int:
    """Return how many scores one proposal needs, for the progress bar."""
    count = 0
    for name in _list_open_choices(supernet):
        count += len(supernet.options[name])
    if isinstance(supernet, DartsSupernet):
        for edges in _group_edges(supernet).values():
            # Removing one of k edges takes k scores.
            count += sum(range(EDGES_PER_NODE + 1, len(edges) + 1))
    return count


def _find_first_worst(scores: Sequence[float | None], proxy: Proxy, name: str) -> int:
    """Return the index of the worst score; of equal ones the first."""
    oriented = _orient_scores(scores, proxy, name)
    return min(oriented, key=lambda pair: pair[1])[0]


def _find_last_best(scores: Sequence[float | None], proxy: Proxy, name: str) -> int:
    """Return the index of the best score; of equal ones the last."""
    oriented = _orient_scores(scores, proxy, name)
    return max(reversed(oriented), key=lambda pair: pair[1])[0]


def _orient_scores(
    scores: Sequence[float | None], proxy: Proxy, name: str
) -> list[tuple[int, float]]:
    """Return index and score of all scores that exist, with the sign for which higher is better.

    Raises:
        Unscorable: All scores are missing.
    """
    oriented: list[tuple[int, float]] = []
    for index, score in enumerate(scores):
        if score is not None:
            oriented.append((index, orient_score(score, proxy.higher_is_better)))
    if not oriented:
        raise Unscorable("unsupported", f"no {proxy.label} score at {name}")
    return oriented
