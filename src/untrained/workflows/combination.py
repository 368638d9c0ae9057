"""Combine the scores of several proxies; the result is benchmarked like any other proxy."""

from collections.abc import Sequence
from math import nan

import numpy as np

from untrained.benchmarks.aggregate import choose_diverse_columns, compute_mean_ranks
from untrained.benchmarks.comparison import ProxyScores, ScoreColumn
from untrained.benchmarks.statistics import orient_score

# With fewer proxies, no combination is reported.
MIN_PROXIES = 3


def combine_proxies(columns: Sequence[ProxyScores]) -> list[ProxyScores]:
    """Return the mean rank over all proxies, and the mean rank over a diverse subset of them.

    The subset leaves out proxies that rank almost like another one. It is chosen by the scores of
    the first seed, and never by the known accuracies. Proxies without any score are left out. An
    architecture that one of the proxies could not score has no mean rank.

    Args:
        columns: Scores of proxies, baselines and others; only those of kind `proxy` are combined.

    Returns:
        The combinations: none if there are too few proxies, and only the first one if the subset
            is too small or contains all proxies.
    """
    members = []
    for column in columns:
        if column.kind == "proxy" and _has_scores(column):
            members.append(column)
    if len(members) < MIN_PROXIES:
        return []
    combinations = [_combine_ranks("mean rank, all", members)]
    first_seed = {member.proxy: _orient_scores(member, 0) for member in members}
    diverse_names = choose_diverse_columns(first_seed)
    diverse = [member for member in members if member.proxy in diverse_names]
    if MIN_PROXIES <= len(diverse) < len(members):
        combinations.append(_combine_ranks("mean rank, diverse", diverse))
    return combinations


def _has_scores(column: ProxyScores) -> bool:
    for scores in column.by_seed:
        if any(score is not None for score in scores):
            return True
    return False


def _combine_ranks(name: str, members: Sequence[ProxyScores]) -> ProxyScores:
    about = f"Mean of the ranks by {', '.join(member.proxy for member in members)}"
    cost = sum(member.cost or 0 for member in members)
    seed_count = len(members[0].by_seed)
    by_seed = tuple(_combine_seed(index, members) for index in range(seed_count))
    return ProxyScores(name, about, "combination", True, by_seed, cost)


def _combine_seed(seed_index: int, members: Sequence[ProxyScores]) -> ScoreColumn:
    """Return mean ranks among the architectures that every member scored; None for the others."""
    scores = np.array([_orient_scores(member, seed_index) for member in members])
    is_complete = ~np.isnan(scores).any(axis=0)
    if not is_complete.any():
        return tuple([None] * len(is_complete))
    columns = {}
    for member, member_scores in zip(members, scores, strict=True):
        columns[member.proxy] = member_scores[is_complete]
    mean_ranks: list[float | None] = [None] * len(is_complete)
    # The ranks are those of the complete architectures alone, in their order.
    complete_indices = np.flatnonzero(is_complete)
    for index, rank in zip(complete_indices, compute_mean_ranks(columns), strict=True):
        mean_ranks[index] = float(rank)
    return tuple(mean_ranks)


def _orient_scores(member: ProxyScores, seed_index: int) -> list[float]:
    """Return the scores of one seed such that higher is better; NaN for a failure."""
    oriented_scores = []
    for score in member.by_seed[seed_index]:
        if score is None:
            oriented_scores.append(nan)
        else:
            oriented_scores.append(orient_score(score, member.higher_is_better))
    return oriented_scores
