"""Several proxies as one, without any training: benched like any other."""

from collections.abc import Sequence
from math import nan

from untrained.benchmarks.aggregate import mean_rank, weakly_correlated
from untrained.studies._judge import Column, Scores

FEWEST = 3  # proxies that are worth combining


def combinations(columns: Sequence[Column]) -> list[Column]:
    """The mean rank of all proxies, and of those that do not repeat each other, chosen by agreement among themselves on
    the first seed and never by the truth. Who has no score by one of them is last on it."""
    members = [column for column in columns if column.kind == "proxy"]
    if len(members) < FEWEST:
        return []
    diverse = weakly_correlated({member.proxy: _oriented(member.by_seed[0], member) for member in members})
    chosen = [member for member in members if member.proxy in diverse]
    whole = _mean_rank("mean rank, all", members)
    return [whole, _mean_rank("mean rank, diverse", chosen)] if FEWEST <= len(chosen) < len(members) else [whole]


def _mean_rank(name: str, members: Sequence[Column]) -> Column:
    by_seed = [
        mean_rank({member.proxy: _oriented(member.by_seed[place], member) for member in members})
        for place in range(len(members[0].by_seed))
    ]
    about = f"Mean of the ranks by {', '.join(member.proxy for member in members)}"
    cost = sum(member.cost or 0 for member in members)
    return Column(name, about, "combination", True, tuple(tuple(map(float, ranks)) for ranks in by_seed), cost)


def _oriented(scores: Scores, member: Column) -> list[float]:
    sign = 1 if member.higher_is_better else -1
    return [nan if score is None else sign * score for score in scores]
