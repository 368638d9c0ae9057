"""Zero-Cost-PT (Xiang et al., AAAI 2023; arXiv:2106.08871): operations of a supernet are judged by taking them away.

Proposal: the choices in random order; for each, every option is taken out in turn and the supernet is scored by a
proxy; the option whose loss hurts most, that is without which the score is lowest, is kept alone. On DARTS then the
topology: at every node in random order, edges are cut one at a time, and the one whose loss hurts least is dropped,
until two are left. Every choice and every node sees a new mini-batch. Validation is the search's own scoring of the
proposals, by any proxy: `untrained search --strategy zerocost_pt --proxy naswot --seeds 100`.

    (default)    10 proposals, operations and edges by naswot on 64 samples, as the authors do
    dextr        Dextr's search: operations by dextr, edges still by naswot, 16 samples; validate by `--proxy dextr`

The authors' code treats an edge of the normal and one of the reduction cell in one step, scores in evaluation mode with
fresh statistics of batch norm, and while it judges the next edge of a node it puts the dropped one back; we take a step
for each, read batch statistics as everywhere, and leave out what was dropped. NAS-Bench-1Shot1's parents are choices
like its operations; not every combination is a listed cell, so give it `members=tight`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from untrained.data import Source
from untrained.data._source import fingerprint
from untrained.errors import Unscorable, UsageError, unknown
from untrained.probe import Probe
from untrained.probe.guard import fastest_kernels
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import Space
from untrained.spaces.core.supernet import Supernet
from untrained.spaces.darts.supernet import DartsSupernet
from untrained.strategies._notes import Notes
from untrained.strategies._strategy import STRATEGIES, Fitness, Unseen
from untrained.strategies._supernets import feasible, member, mix_evenly, mixable, module, new_seed
from untrained.strategies.limits import Feasible
from untrained.types import Arch, Batch, Record

PRESETS = {"": ("naswot", "naswot"), "dextr": ("dextr", "naswot(samples=16)")}  # operations, edges
KEPT = 2  # edges of a node of DARTS


@dataclass(frozen=True, slots=True)
class Verdict:
    """The score of the supernet without something, for each option of a choice or each edge of a node, and which of
    them was kept or, of edges, dropped. None where there was no score."""

    where: str
    without: tuple[tuple[str, float | None], ...]
    decided: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed architecture and how it came about; or why there is none."""

    arch: Arch | None
    verdicts: tuple[Verdict, ...]
    dropped: str = ""  # `known`, `outside of the space`, the limit it breaks, or where nothing had a score


class ZeroCostPT:
    """Operations of a supernet are judged by taking them away; some proposals, validated by the search's proxy."""

    needs: ClassVar[tuple[str, ...]] = ("source",)
    portion: ClassVar[int] = 1

    def __init__(
        self,
        space: "Space | Feasible",
        rng: np.random.Generator,
        fitness: Fitness | None = None,
        *,
        source: Source,
        device: str = "cpu",
        notes: Notes | None = None,
        proposals: int = 10,
        operations: "str | Proxy | None" = None,
        edges: "str | Proxy | None" = None,
        preset: Literal["", "dextr"] = "",
    ) -> None:
        if preset not in PRESETS:
            raise unknown("preset of zerocost_pt", preset, filter(None, PRESETS))
        if proposals < 1:
            raise UsageError("zerocost_pt makes proposals from 1 up")
        self._by = [load_proxy(said or usual) for said, usual in zip((operations, edges), PRESETS[preset], strict=True)]
        if aggregate := next((proxy for proxy in self._by if proxy.parts), None):
            raise UsageError(f"{aggregate.name} compares candidates; zerocost_pt needs a proxy that judges one network")
        self._space, self._rng, self._source, self._device = feasible(space), rng, source, device
        self._notes = notes or Notes()
        self._left = self.usual = proposals
        self._unseen = Unseen(self._space)
        self._supernet: Supernet | None = None
        self.trace: list[Proposal] = []

    def ask(self, n: int) -> list[Arch]:
        """As many of the proposals; one that was made before is not made again, nor one beyond the limits."""
        if self._supernet is None:
            self._supernet = mixable(self._space, new_seed(self._rng), self._device, "zerocost_pt")
        found: list[Arch] = []
        while len(found) < n and self._left:
            self._left -= 1
            proposal = self._propose(self._supernet)
            self.trace.append(proposal)
            found += [proposal.arch] if proposal.arch is not None else []
        if not self._left and not any(proposal.arch for proposal in self.trace):
            why = ", ".join(dict.fromkeys(proposal.dropped for proposal in self.trace))
            raise UsageError(
                f"zerocost_pt: none of {len(self.trace)} proposals for {self._space.name} can be kept: {why}"
            )
        return found

    def tell(self, records: Sequence[Record]) -> None:
        """The records are the validation; nothing is learned from them."""

    # --------------------------------------------------------------------------------------------------- a proposal

    def _propose(self, supernet: Supernet) -> Proposal:
        verdicts: list[Verdict] = []
        self._notes.begin(_scores(supernet))
        try:
            verdicts.extend(self._verdicts(supernet))
        except Unscorable as reason:
            return Proposal(None, tuple(verdicts), reason.detail)
        scores = {name: weights.tolist() for name, weights in supernet.mixture.items()}
        arch = member(self._space.space, next(supernet.decode_scores(scores)))
        dropped = self._objection(arch)
        return Proposal(None if dropped else arch, tuple(verdicts), dropped)

    def _objection(self, arch: Arch | None) -> str:
        if arch is None:
            return "outside of the space"
        if not self._unseen.add(arch):
            return "known"
        breach = None if self._space.allows(arch) else self._space.breach(arch)
        return breach.limit if breach else ""

    def _verdicts(self, supernet: Supernet) -> Iterator[Verdict]:
        mix_evenly(supernet)
        for name in self._shuffled(_open(supernet)):
            yield self._choose(supernet, name)
        if isinstance(supernet, DartsSupernet):
            yield from self._topology(supernet)

    def _choose(self, supernet: Supernet, name: str) -> Verdict:
        """Keep the option without which the supernet is worst."""
        options, even = supernet.options[name], supernet.mixture[name]
        score = self._scorer(supernet, self._by[0], name)
        without: list[float | None] = []
        for place, option in enumerate(options):
            supernet.mixture[name] = even.clone()
            supernet.mixture[name][place] = 0.0
            without.append(score(f"without {option}"))
        kept = _first_least(without, self._by[0], name)
        supernet.mixture[name] = torch.zeros_like(even)
        supernet.mixture[name][kept] = 1.0
        return Verdict(name, tuple(zip(options, without, strict=True)), options[kept])

    def _topology(self, supernet: DartsSupernet) -> Iterator[Verdict]:
        """Cut edges of every node, the least missed first, until two are left."""
        nodes = _nodes(supernet)
        for node in self._shuffled(list(nodes)):
            edges, score = nodes[node], self._scorer(supernet, self._by[1], node)
            while len(edges) > KEPT:
                without: list[float | None] = []
                for edge in edges:
                    weights = supernet.mixture[edge]
                    supernet.mixture[edge] = torch.zeros_like(weights)
                    without.append(score(f"of {len(edges)} edges without {edge}"))
                    supernet.mixture[edge] = weights
                dropped = edges[_last_greatest(without, self._by[1], node)]
                yield Verdict(node, tuple(zip(edges, without, strict=True)), dropped)
                supernet.mixture[dropped] = torch.zeros_like(supernet.mixture[dropped])
                edges = [edge for edge in edges if edge != dropped]

    def _shuffled(self, names: list[str]) -> list[str]:
        return [names[place] for place in self._rng.permutation(len(names))]

    def _scorer(self, supernet: Supernet, proxy: Proxy, where: str) -> "_Scorer":
        seed = new_seed(self._rng)
        batch = self._source.batch(proxy.samples, seed)
        at = f"proposal {len(self.trace)}, {fingerprint(batch)}, {where}"
        return _Scorer(supernet, proxy, batch.to(self._device), self._source.task.loss, seed, self._notes, at)


@dataclass(frozen=True)
class _Scorer:
    """The score of the supernet as it is mixed now, always on the same batch; None where there is none."""

    supernet: Supernet
    proxy: Proxy
    batch: Batch
    loss: str
    seed: int
    notes: Notes
    at: str  # the proposal, the batch and the choice or node

    def __call__(self, mixed: str) -> float | None:
        """As it is written down; `mixed` says how it is mixed now."""
        found: float | None = self.notes.of(f"{self.at} {mixed}", self._measured)
        return found

    def _measured(self) -> float | None:
        try:
            with fastest_kernels(str(self.batch.inputs.device)):
                value = self.proxy(Probe(module(self.supernet), self.batch, loss=self.loss, seed=self.seed))
        except (Unscorable, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            return None
        return value if np.isfinite(value) else None


def _open(supernet: Supernet) -> list[str]:
    """Choices that leave something to decide."""
    return [name for name, options in supernet.options.items() if len(options) > 1]


def _nodes(supernet: DartsSupernet) -> dict[str, list[str]]:
    """The edges of every node."""
    nodes: dict[str, list[str]] = {}
    for name in supernet.options:
        nodes.setdefault(name.partition("<-")[0], []).append(name)
    return nodes


def _scores(supernet: Supernet) -> int:
    """How many scores a proposal takes: one an option, and of DARTS one an edge as often as one of them is dropped."""
    edges = _nodes(supernet).values() if isinstance(supernet, DartsSupernet) else ()
    cut = sum(sum(range(KEPT + 1, len(some) + 1)) for some in edges)
    return cut + sum(len(supernet.options[name]) for name in _open(supernet))


def _first_least(values: Sequence[float | None], proxy: Proxy, where: str) -> int:
    return min(_oriented(values, proxy, where), key=lambda place: place[1])[0]


def _last_greatest(values: Sequence[float | None], proxy: Proxy, where: str) -> int:
    return max(reversed(_oriented(values, proxy, where)), key=lambda place: place[1])[0]


def _oriented(values: Sequence[float | None], proxy: Proxy, where: str) -> list[tuple[int, float]]:
    """Places and scores of what has one, higher is better."""
    sign = 1 if proxy.higher_is_better else -1
    found = [(place, sign * value) for place, value in enumerate(values) if value is not None]
    if not found:
        raise Unscorable("unsupported", f"no {proxy.label} at {where}")
    return found


STRATEGIES.add("zerocost_pt", ZeroCostPT)
