"""Several proxies as one, without any training: benched like any other."""

from collections.abc import Sequence
from math import nan

import numpy as np

from untrained.benchmarks.aggregate import mean_rank, weakly_correlated
from untrained.studies._judge import Column, Scores

FEWEST = 3  # proxies that are worth combining


def combinations(columns: Sequence[Column]) -> list[Column]:
    """The mean rank of all proxies, and of those that do not repeat each other.

    The latter are chosen by agreement among themselves on the first seed and never by the truth. Proxies that scored
    nothing are left out. An architecture that one of the others could not score has no mean rank.
    """
    members = [column for column in columns if column.kind == "proxy" and _scored_something(column)]
    if len(members) < FEWEST:
        return []
    diverse = weakly_correlated({member.proxy: _oriented(member.by_seed[0], member) for member in members})
    chosen = [member for member in members if member.proxy in diverse]
    combined = [_mean_rank("mean rank, all", members)]
    if FEWEST <= len(chosen) < len(members):
        combined.append(_mean_rank("mean rank, diverse", chosen))
    return combined


def _scored_something(column: Column) -> bool:
    return any(score is not None for scores in column.by_seed for score in scores)


def _mean_rank(name: str, members: Sequence[Column]) -> Column:
    about = f"Mean of the ranks by {', '.join(member.proxy for member in members)}"
    cost = sum(member.cost or 0 for member in members)
    by_seed = tuple(_mean_rank_of_seed(place, members) for place in range(len(members[0].by_seed)))
    return Column(name, about, "combination", True, by_seed, cost)


def _mean_rank_of_seed(place: int, members: Sequence[Column]) -> Scores:
    """Mean ranks among the architectures that every member scored; the others have none."""
    oriented = np.array([_oriented(member.by_seed[place], member) for member in members])
    whole = ~np.isnan(oriented).any(axis=0)
    if not whole.any():
        return tuple([None] * len(whole))
    ranks = iter(mean_rank({member.proxy: row[whole] for member, row in zip(members, oriented, strict=True)}))
    return tuple(float(next(ranks)) if is_whole else None for is_whole in whole)


def _oriented(scores: Scores, member: Column) -> list[float]:
    sign = 1 if member.higher_is_better else -1
    return [nan if score is None else sign * score for score in scores]
