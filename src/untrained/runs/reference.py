"""Aggregates that compare a candidate with a reference sample of its space, such as `consensus`.

The parts are measured network by network and recorded as usual, for the reference architectures and
for the candidates. The aggregate of a candidate follows from its own records and the reference, so
it is recorded like any other score. Its key contains a fingerprint of the reference.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from math import nan
from statistics import fmean
from typing import Any

from untrained.benchmarks.statistics import orient_score
from untrained.formatting import format_count, format_percent
from untrained.proxies import Proxy
from untrained.proxies.base import list_members
from untrained.proxies.consensus import Consensus
from untrained.runs.benchmark_families import describe_similar_families
from untrained.types import Arch, Failure, Record

# Below this mean rank correlation between members, a search warns that they disagree. The value is
# a judgement and not the result of a measurement.
LOW_AGREEMENT = 0.5
# Rank correlations of fewer networks than this say nothing about how far the members agree.
MIN_COMPARED_NETWORKS = 10
# A smaller reference sample, which the time cut short, is not compared with those of benchmarks.
MIN_REFERENCE_NETWORKS = 32
CONSENSUS = "consensus"
CONFIRM_ADVICE = "check the ranking with --confirm"


@dataclass(frozen=True)
class FittedAggregate:
    """An aggregate that was fitted to a reference sample.

    Attributes:
        aggregate: The aggregate.
        parts: The proxies that it combines.
        consensus: Percentile scales and weights of the parts.
        fingerprint: Identity of the reference, a digest of its records.
    """

    aggregate: Proxy
    parts: tuple[Proxy, ...]
    consensus: Consensus
    fingerprint: str

    @classmethod
    def fit(cls, aggregate: Proxy, reference: Sequence[Record]) -> "FittedAggregate":
        """Fit an aggregate to the records of the reference architectures.

        Args:
            aggregate: An aggregate with a reference.
            reference: Records of all parts for the reference architectures, one seed. Records of
                other measures are ignored.
        """
        parts = tuple(list_members(aggregate))
        part_measures = {part.measure for part in parts}
        own_records = [record for record in reference if record.measure in part_measures]
        archs = list(dict.fromkeys(record.arch for record in own_records))
        columns = {}
        for part in parts:
            scores: dict[Arch, float] = {}
            for record in own_records:
                if record.measure == part.measure and record.value is not None:
                    scores[record.arch] = orient_score(record.value, part.higher_is_better)
            columns[part.label] = [scores.get(arch, nan) for arch in archs]
        consensus: Consensus = aggregate.function(columns)
        return cls(aggregate, parts, consensus, _fingerprint_records(own_records))

    def describe(self) -> dict[str, Any]:
        """Return the weights and the agreement of the members as plain values, for `run.json`."""
        consensus = self.consensus
        return {
            "label": self.aggregate.label,
            "measure": self.aggregate.measure,
            "reference_size": consensus.reference_size,
            "weights": dict(consensus.weights),
            "left_out": dict(consensus.left_out),
            "agreement": consensus.agreement,
            "explained_by_size": consensus.explained_by_size,
        }

    def compute_records(self, records: Sequence[Record]) -> list[Record]:
        """Compute the aggregate of every architecture and seed that has records of all parts.

        A part that failed for a network drops out, and the others share its weight. There is no
        aggregate if the network is disconnected, if the machine failed (another run tries again),
        or if the parts that failed have more than half of the weight.

        Args:
            records: Records of candidates. Records of other measures are ignored.
        """
        by_network: dict[tuple[Arch, int], dict[str, Record]] = {}
        for record in records:
            by_measure = by_network.setdefault((record.arch, record.seed), {})
            by_measure[record.measure] = record
        aggregates = []
        for by_measure in by_network.values():
            if all(part.measure in by_measure for part in self.parts):
                aggregates.append(self._combine(by_measure))
        return aggregates

    def _combine(self, by_measure: Mapping[str, Record]) -> Record:
        """Combine the records of one network."""
        records = [by_measure[part.measure] for part in self.parts]
        request = replace(
            records[0].request, measure=self.aggregate.measure, data=self._fingerprint_data(records)
        )
        failures = [record.error for record in records if record.error is not None]
        for failure in failures:
            if failure.kind == "disconnected" or failure.is_transient:
                return Record.of(request, failure)
        scores = self.collect_part_scores(records)
        value = self.consensus.score(scores.get(request.arch, {}))
        if value is not None:
            return Record.of(request, value)
        if failures:
            return Record.of(request, failures[0])
        # All members may have been left out, although none failed for this network.
        return Record.of(request, Failure("unsupported", "no member of the consensus has a weight"))

    def collect_part_scores(self, records: Sequence[Record]) -> dict[Arch, dict[str, float]]:
        """Return the scores of the parts by architecture, means over the seeds, higher is better.

        Args:
            records: Records of candidates. Records of other measures are ignored.
        """
        values: dict[Arch, dict[str, list[float]]] = {}
        labels = {part.measure: part.label for part in self.parts}
        directions = {part.measure: part.higher_is_better for part in self.parts}
        for record in records:
            if record.measure in labels and record.value is not None:
                by_label = values.setdefault(record.arch, {})
                value = orient_score(record.value, directions[record.measure])
                by_label.setdefault(labels[record.measure], []).append(value)
        means: dict[Arch, dict[str, float]] = {}
        for arch, by_label in values.items():
            means[arch] = {label: fmean(scores) for label, scores in by_label.items()}
        return means

    def _fingerprint_data(self, records: Sequence[Record]) -> str:
        """Return a digest of the samples of all parts of a candidate and of the reference."""
        digest = sha256(self.fingerprint.encode())
        for record in records:
            digest.update(record.data.encode())
        return digest.hexdigest()[:16]


def get_confirm_advice(has_trained: bool) -> str:
    """Return the advice to check the ranking of a search by short trainings.

    It is given if the members of a consensus hardly agree.

    Args:
        has_trained: Whether there were short trainings already; the advice is then empty.
    """
    if has_trained:
        return ""
    return CONFIRM_ADVICE


def describe_scale(facts: Mapping[str, Any]) -> str:
    """Describe in a sentence what a score of a consensus means.

    Args:
        facts: The result of `FittedAggregate.describe`.
    """
    return (
        f"A score of {facts['label']} is a geometric mean of percentiles among the "
        f"{facts['reference_size']} random reference networks, one percentile per proxy: an "
        "average network has about 0.5. If the available training time or a latency limit allows "
        "only small networks, all candidates can score below 0.5."
    )


def describe_consensus(
    facts: Mapping[str, Any],
    advice: str = CONFIRM_ADVICE,
    is_sample_of_space: bool = True,
) -> str:
    """Describe in a few sentences how far the members of a consensus agree.

    Args:
        facts: The result of `FittedAggregate.describe`.
        advice: What to do if they hardly agree; empty for no advice.
        is_sample_of_space: Whether the reference networks are a random sample of a space. Then the
            benchmarks with a similar agreement are named.
    """
    members = f"the {len(facts['weights'])} proxies"
    if facts["left_out"]:
        total = len(facts["weights"]) + len(facts["left_out"])
        members = f"{len(facts['weights'])} of the {total} proxies"
    sentences = []
    agreement = facts["agreement"]
    explained_by_size = facts["explained_by_size"]
    network_count = facts["reference_size"]
    least_networks = MIN_REFERENCE_NETWORKS if is_sample_of_space else MIN_COMPARED_NETWORKS
    if agreement is not None and network_count < least_networks:
        noun = "reference network" if is_sample_of_space else "network"
        verb = "is" if network_count == 1 else "are"
        sentences.append(
            f"{format_count(network_count, noun)} {verb} too few to tell how far "
            f"{members} of {facts['label']} agree."
        )
        # Numbers of so few networks are not shown.
        agreement = None
        explained_by_size = None
    if agreement is not None:
        comparison = ""
        if agreement < LOW_AGREEMENT:
            comparison = ", which is low"
            if advice:
                comparison += f": {advice}"
        sentences.append(
            f"{members[0].upper()}{members[1:]} of {facts['label']} have a mean rank correlation "
            f"of {agreement:.2f} with each other{comparison}."
        )
    if explained_by_size is not None:
        share = format_percent(explained_by_size, 0)
        sentences.append(f"The size of the networks explains {share} of the combined ranking.")
    # The figures of the benchmarks are about the proxy `consensus` and samples of a space.
    if agreement is not None and facts["label"] == CONSENSUS and is_sample_of_space:
        sentences.append(describe_similar_families(agreement))
    for member, reason in facts["left_out"].items():
        sentences.append(f"{member} is left out: it {reason}.")
    return " ".join(sentences)


def _fingerprint_records(records: Iterable[Record]) -> str:
    digest = sha256()
    for record in records:
        outcome: float | Failure | None = record.value
        if record.error is not None:
            outcome = record.error
        # Only the values of the key count, so that a new name of a field changes nothing.
        digest.update(f"{astuple(record.key)} {outcome!r}".encode())
    return digest.hexdigest()[:16]
