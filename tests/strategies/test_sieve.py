"""A sieve before a dear proxy: mean ranks decide who is judged, and who is judged is ranked as ever."""

from math import ceil
from typing import Any

import pytest

import untrained
from tests.records import make_record
from tests.strategies.helpers import TASK, contents, find, odd, proxy, timeless
from untrained import Arch, Probe, Record
from untrained.errors import UsageError
from untrained.runs.ranking import rank_records
from untrained.strategies.budget import Budget
from untrained.strategies.search import Progress
from untrained.strategies.sieve import Listed, Sieve
from untrained.types import Failure


def sieve(keep: float, *directions: bool) -> Sieve:
    def measure(place: int, higher: bool) -> Any:
        def named(probe: Probe) -> float:
            return 0.0

        named.__name__ = f"p{place}"
        return untrained.proxy(higher_is_better=higher)(named)

    return Sieve(tuple(measure(place, higher) for place, higher in enumerate(directions)), keep)


def pool(**scores: tuple[float | None, ...]) -> list[Record]:
    """Records of architectures a, b, ... by p0, p1, ...; None is a failure."""
    return [
        make_record(
            Arch("s", (("name", name),)), f"p{i}@1", TASK, 0, value, None if value is not None else Failure("nan")
        )
        for name, values in scores.items()
        for i, value in enumerate(values)
    ]


def kept(screen: Sieve, records: list[Record]) -> str:
    return "".join(str(arch["name"]) for arch in screen.survivors(records))


def test_one_proxy_keeps_the_best_in_its_direction():
    records = pool(a=(3.0,), b=(1.0,), c=(4.0,), d=(2.0,))
    assert kept(sieve(0.5, True), records) == "ca"
    assert kept(sieve(0.5, False), records) == "bd"
    assert kept(sieve(1.0, True), records) == "cadb"


def test_several_proxies_decide_by_the_mean_of_their_ranks():
    """Ranks, 4 the best. p0, higher is better: a 4, b 3, c 2, d 1. p1, lower is better: c 4, d 3, b 2, a 1.
    Sums: a 5, b 5, c 6, d 4. Scores themselves would say otherwise: a is far ahead by p0."""
    records = pool(a=(1000.0, 9.0), b=(3.0, 8.0), c=(2.0, 1.0), d=(1.0, 2.0))
    assert kept(sieve(0.25, True, False), records) == "c"
    assert kept(sieve(0.75, True, False), records) == "cab"  # equals in the order of discovery
    assert kept(sieve(1.0, True, False), records) == "cabd"


def test_ties_share_the_mean_of_their_ranks():
    """p0: a and b share (4 + 3) / 2 = 3.5, c 2, d 1. p1: d 4, c 3, b 2, a 1. Sums: a 4.5, b 5.5, c 5, d 5."""
    records = pool(a=(7.0, 1.0), b=(7.0, 2.0), c=(2.0, 3.0), d=(1.0, 4.0))
    assert kept(sieve(1.0, True, True), records) == "bcda"


def test_who_has_no_score_by_one_of_them_is_sieved_out_and_ranks_nobody():
    """Without c the ranks are: p0: a 3, b 2, d 1; p1: d 3, b 2, a 1. With c's 0.5 by p1 they would be others."""
    records = pool(a=(9.0, 0.0), b=(5.0, 1.0), c=(None, 0.5), d=(1.0, 2.0))
    assert kept(sieve(1.0, True, True), records) == "abd"
    assert kept(sieve(1.0, True, False), pool(a=(None, 1.0), b=(1.0, None))) == ""


@pytest.mark.parametrize(
    ("share", "size", "count"),
    [(0.2, 5, 1), (0.2, 6, 2), (0.2, 4, 1), (0.2, 10, 2), (0.2, 11, 3), (0.01, 7, 1), (1.0, 7, 7), (0.5, 3, 2),
     (0.07, 100, 7), (0.28, 25, 7), (0.55, 100, 55)],
)  # fmt: skip
def test_the_share_is_of_the_pool_and_rounded_up(share, size, count):
    """7 % of 100 are 7, though 0.07 * 100 is a little more in binary."""
    records = pool(**{f"n{i}": (float(i),) for i in range(size)})
    assert len(sieve(share, True).survivors(records)) == count


def test_failures_count_in_the_size_of_the_pool():
    records = pool(a=(1.0,), b=(None,), c=(None,), d=(None,), e=(2.0,), f=(3.0,))
    assert kept(sieve(0.34, True), records) == "fea"  # 0.34 of six, rounded up


def test_seeds_are_averaged_before_they_are_ranked():
    one, two = pool(a=(1.0,), b=(2.0,)), pool(a=(9.0,), b=(2.0,))
    records = one + [make_record(r.arch, r.measure, TASK, 1, r.value, r.error) for r in two]
    assert kept(sieve(1.0, True), records) == "ab"


def test_a_list_is_asked_in_its_order_and_ends():
    archs = [r.arch for r in pool(a=(1.0,), b=(2.0,), c=(3.0,))]
    asker = Listed(archs)
    assert [asker.ask(2), asker.ask(2), asker.ask(2)] == [archs[:2], archs[2:], []]


WRONG = [
    ("params,te_nas", "20%", Budget(5), "name proxies that judge a network alone, such as params,naswot"),
    (",", "20%", Budget(5), "name proxies that judge a network alone"),
    ("params", "20%", Budget(seconds=5.0), "ranks a pool of known size; give --budget instead of --time or --stable"),
    ("params", "20%", Budget(stable=5), "give --budget instead"),
    ("params", "20", Budget(5), "a share is more than nothing and at most 100%, not '20'"),
    ("params", "some", Budget(5), "impossible share 'some'; write 20% or 0.2"),
    ("parms", "20%", Budget(5), "no proxy is called 'parms'; did you mean params"),
]


@pytest.mark.parametrize(("names", "keep", "budget", "said"), WRONG)
def test_a_wrong_screen_is_refused_in_one_line(names, keep, budget, said):
    with pytest.raises(UsageError) as caught:
        Sieve.parse(names, keep, budget)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------- in a search


def test_a_screened_search_ranks_the_survivors_as_if_everybody_had_been_judged(tmp_path):
    whole = find(tmp_path / "whole", proxy(), budget=16)
    params = sorted((r for r in whole.records if r.proxy == "params"), key=lambda r: -r.value)
    survivors = {r.arch for r in params[: ceil(0.3 * 16)]}
    assert params[4].value > params[5].value  # no tie at the edge
    found = find(tmp_path / "screened", proxy(), budget=16, screen="params", keep="30%")
    judged = rank_records((r for r in whole.records if r.arch in survivors), "weight@1", True)
    assert found.ranking == judged
    assert len(found.ranking.standings) == 5
    asked = [r.arch for r in found.records if r.proxy == "weight"]
    assert set(asked) == survivors
    assert set(timeless(found.records)) < set(timeless(whole.records))
    assert {r.arch for r in found.records} == {r.arch for r in whole.records}  # the sieved out are told too


def test_both_stages_are_told(run_folder):
    seen: list[Progress] = []
    find(run_folder, proxy(), budget=10, screen="params,flops", keep="20%", watch=seen.append)
    assert [(p.stage, p.done, p.total) for p in seen] == [
        *(("screening", done, 10) for done in range(11)),
        *(("scoring", done, 2) for done in range(3)),
    ]
    assert [p.measured for p in seen] == [*range(11), 0, 1, 2]


def test_a_screened_search_resumes_where_it_stopped(tmp_path):
    asked: list[str] = []

    @untrained.proxy()
    def dear(probe: Probe) -> float:
        asked.append("dear")
        if len(asked) == 3:
            raise KeyboardInterrupt
        return float(next(probe.model.parameters()).detach().flatten()[0])

    options: dict[str, Any] = {"budget": 12, "screen": "params,flops", "keep": "50%"}
    first = find(tmp_path / "a", dear, **options)
    assert (first.run.ended, len(first.ranking.standings)) == ("interrupted", 2)
    again = find(tmp_path / "a", dear, **options)
    assert len(asked) == 3 + 4  # two are known
    asked.extend([""] * 3)
    undisturbed = find(tmp_path / "b", dear, **options)
    assert again.ranking == undisturbed.ranking
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_search_interrupted_while_screening_has_judged_nobody(run_folder):
    @untrained.proxy()
    def cheap(probe: Probe) -> float:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(untrained.proxies.PROXIES._members, "cheap", cheap)
        found = find(run_folder, proxy(), budget=5, screen="cheap")
    assert (found.run.ended, found.records) == ("interrupted", ())


def test_everybody_is_screened_before_the_best_may_settle(run_folder):
    """--stable is about the ranking by the dear proxy: a screen has none, and is not over when nothing changes."""
    seen: list[Progress] = []
    constant = untrained.proxy()(lambda probe: 1.0)
    options: dict[str, Any] = {"budget": 16, "stable": 3, "top": 1, "screen": "params", "keep": "50%"}
    found = find(run_folder, constant, watch=seen.append, **options)
    assert max(p.done for p in seen if p.stage == "screening") == 16
    assert (found.run.ended, len(found.ranking.standings)) == ("stable", 4)


def test_the_clock_counts_for_both_stages(run_folder, monkeypatch):
    """A second for every look at the clock: ten screened take eleven, and the twelfth is over after one more."""
    from untrained.strategies import drive as drive_

    ticks = iter(range(1000))
    monkeypatch.setattr(drive_, "perf_counter", lambda: float(next(ticks)))
    found = find(run_folder, proxy(), budget=10, time="13s", screen="params", keep="100%")
    assert found.run.ended == "time"
    assert len(found.ranking.standings) == 3


def test_a_pool_without_survivors_has_no_best_and_says_so(run_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(untrained.proxies.PROXIES._members, "odd", odd)
        found = find(run_folder, proxy(), budget=16, screen="odd", keep="100%")
        assert len(found.ranking.standings) == 8  # those of odd width
        nobody = untrained.proxy()(lambda probe: float("nan"))
        patch.setitem(untrained.proxies.PROXIES._members, "nobody", nobody)
        none = find(run_folder / "none", proxy(), budget=6, screen="nobody")
    assert (none.ranking.standings, none.ranking.failed) == ((), ())
    assert none.run.ended == "exhausted"


def test_other_screens_are_other_runs(run_folder):
    find(run_folder, proxy(), budget=4, screen="params")
    with pytest.raises(UsageError, match=r"another run, with screen 'params' \(now 'flops'\)"):
        find(run_folder, proxy(), budget=4, screen="flops")
    with pytest.raises(UsageError, match=r"another run, with keep '20%' \(now '30%'\)"):
        find(run_folder, proxy(), budget=4, screen="params", keep="30%")


def test_a_proxy_cannot_screen_for_itself(run_folder):
    """Everybody would have its score, and so be ranked, also who was sieved out."""
    with pytest.raises(UsageError, match="params cannot screen for itself; screen by something cheaper"):
        find(run_folder, "params", budget=10, screen="params", keep="50%")
    assert not run_folder.exists()


def test_a_proxy_of_the_users_own_is_not_taken_for_one_of_its_name_in_the_screen(run_folder):
    def params(probe: Probe) -> float:
        return -1.0

    with pytest.raises(UsageError, match="two different proxies are called params; rename one of them"):
        find(run_folder, untrained.proxy()(params), screen="params")
    assert not run_folder.exists()
