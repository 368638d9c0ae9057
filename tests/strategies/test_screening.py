"""`--screen`: mean ranks by cheap proxies decide which architectures the expensive proxy scores."""

from math import ceil
from typing import Any

import pytest

import untrained
from tests.records import make_record
from tests.strategies.helpers import (
    TASK,
    drop_costs,
    make_weight_proxy,
    odd,
    read_values,
    search_tiny,
)
from untrained import Arch, Probe, Record
from untrained.errors import UsageError
from untrained.progress import Progress
from untrained.runs.ranking import rank_records
from untrained.strategies.budget import Budget
from untrained.strategies.screening import FixedCandidates, Screening
from untrained.types import Failure


def make_place_proxy(place: int, higher: bool = True) -> Any:
    """Return the proxy `p0`, `p1`, ... of a screening. Its code is a part of its measure."""

    def return_zero(probe: Probe) -> float:
        return 0.0

    return_zero.__name__ = f"p{place}"
    return untrained.proxy(higher_is_better=higher)(return_zero)


def make_screening(keep: float, *directions: bool) -> Screening:
    proxies = [make_place_proxy(place, higher) for place, higher in enumerate(directions)]
    return Screening(tuple(proxies), keep)


def make_records(**scores: tuple[float | None, ...]) -> list[Record]:
    """Make records of architectures a, b, ... by proxies p0, p1, ...; None is a failure."""
    return [
        make_record(
            Arch("s", (("name", name),)),
            make_place_proxy(i).measure,
            TASK,
            0,
            value,
            None if value is not None else Failure("nan"),
        )
        for name, values in scores.items()
        for i, value in enumerate(values)
    ]


def list_survivors(screen: Screening, records: list[Record]) -> str:
    return "".join(str(arch["name"]) for arch in screen.select_survivors(records))


def test_one_proxy_keeps_the_best_in_its_direction():
    records = make_records(a=(3.0,), b=(1.0,), c=(4.0,), d=(2.0,))
    assert list_survivors(make_screening(0.5, True), records) == "ca"
    assert list_survivors(make_screening(0.5, False), records) == "bd"
    assert list_survivors(make_screening(1.0, True), records) == "cadb"


def test_several_proxies_decide_by_the_mean_of_their_ranks():
    """Ranks, 4 is best. p0, higher is better: a 4, b 3, c 2, d 1. p1, lower is better: c 4, d 3, b 2,
    a 1. Sums: a 5, b 5, c 6, d 4. The mean of the scores would prefer a, which is far ahead by p0."""
    records = make_records(a=(1000.0, 9.0), b=(3.0, 8.0), c=(2.0, 1.0), d=(1.0, 2.0))
    assert list_survivors(make_screening(0.25, True, False), records) == "c"
    # Equal sums keep the order of discovery.
    assert list_survivors(make_screening(0.75, True, False), records) == "cab"
    assert list_survivors(make_screening(1.0, True, False), records) == "cabd"


def test_ties_share_the_mean_of_their_ranks():
    """p0: a and b share (4 + 3) / 2 = 3.5, c 2, d 1. p1: d 4, c 3, b 2, a 1. Sums: a 4.5, b 5.5, c 5, d 5."""
    records = make_records(a=(7.0, 1.0), b=(7.0, 2.0), c=(2.0, 3.0), d=(1.0, 4.0))
    assert list_survivors(make_screening(1.0, True, True), records) == "bcda"


def test_a_candidate_without_a_score_is_dropped_and_does_not_affect_ranks():
    """Without c the ranks are p0: a 3, b 2, d 1; p1: d 3, b 2, a 1. With c's 0.5 by p1 they differ."""
    records = make_records(a=(9.0, 0.0), b=(5.0, 1.0), c=(None, 0.5), d=(1.0, 2.0))
    assert list_survivors(make_screening(1.0, True, True), records) == "abd"
    assert (
        list_survivors(make_screening(1.0, True, False), make_records(a=(None, 1.0), b=(1.0, None)))
        == ""
    )


@pytest.mark.parametrize(
    ("share", "size", "count"),
    [(0.2, 5, 1), (0.2, 6, 2), (0.2, 4, 1), (0.2, 10, 2), (0.2, 11, 3), (0.01, 7, 1), (1.0, 7, 7), (0.5, 3, 2),
     (0.07, 100, 7), (0.28, 25, 7), (0.55, 100, 55)],
)  # fmt: skip
def test_the_number_of_survivors_is_rounded_up(share, size, count):
    """7 % of 100 is 7, although 0.07 * 100 is slightly more than 7 in binary."""
    records = make_records(**{f"n{i}": (float(i),) for i in range(size)})
    assert len(make_screening(share, True).select_survivors(records)) == count


def test_failures_count_as_candidates():
    records = make_records(a=(1.0,), b=(None,), c=(None,), d=(None,), e=(2.0,), f=(3.0,))
    assert list_survivors(make_screening(0.34, True), records) == "fea"  # 34 % of six, rounded up


def test_scores_are_averaged_over_seeds_before_ranking():
    one = make_records(a=(1.0,), b=(2.0,))
    two = make_records(a=(9.0,), b=(2.0,))
    records = one + [make_record(r.arch, r.measure, TASK, 1, r.value, r.error) for r in two]
    assert list_survivors(make_screening(1.0, True), records) == "ab"


def test_fixed_candidates_are_proposed_in_their_order():
    archs = [r.arch for r in make_records(a=(1.0,), b=(2.0,), c=(3.0,))]
    strategy = FixedCandidates(archs)
    assert [strategy.ask(2), strategy.ask(2), strategy.ask(2)] == [archs[:2], archs[2:], []]


WRONG = [
    (
        "params,te_nas",
        "20%",
        Budget(5),
        "name proxies that score a single network, such as params,naswot",
    ),
    (",", "20%", Budget(5), "name proxies that score a single network"),
    (
        "params",
        "20%",
        Budget(seconds=5.0),
        "ranks a pool of known size; give --budget instead of --time or --stable",
    ),
    ("params", "20%", Budget(stable=5), "give --budget instead"),
    ("params", "20", Budget(5), "a share is more than 0 and at most 100%, not '20'"),
    ("params", "some", Budget(5), "invalid share 'some'; write 20% or 0.2"),
    ("parms", "20%", Budget(5), "no proxy is called 'parms'; did you mean params"),
]


@pytest.mark.parametrize(("names", "keep", "budget", "message"), WRONG)
def test_a_wrong_screen_is_refused_in_one_line(names, keep, budget, message):
    with pytest.raises(UsageError) as caught:
        Screening.parse(names, keep, budget)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# ----------------------------------------------------------------------------------- in a search


def test_a_screened_search_ranks_the_survivors_like_a_full_search(tmp_path):
    whole = search_tiny(tmp_path / "whole", make_weight_proxy(), budget=16)
    params = sorted((r for r in whole.records if r.proxy == "params"), key=lambda r: -r.value)
    survivors = {r.arch for r in params[: ceil(0.3 * 16)]}
    assert params[4].value > params[5].value  # no tie between the last survivor and the next
    result = search_tiny(
        tmp_path / "screened", make_weight_proxy(), budget=16, screen="params", keep="30%"
    )
    expected = rank_records(
        (r for r in whole.records if r.arch in survivors), make_weight_proxy().measure, True
    )
    assert result.ranking == expected
    assert len(result.ranking.standings) == 5
    scored = [r.arch for r in result.records if r.proxy == "weight"]
    assert set(scored) == survivors
    assert set(drop_costs(result.records)) < set(drop_costs(whole.records))
    # Records of dropped candidates are kept.
    assert {r.arch for r in result.records} == {r.arch for r in whole.records}


def test_progress_is_reported_for_both_stages(run_folder):
    events: list[Progress] = []
    search_tiny(
        run_folder,
        make_weight_proxy(),
        budget=10,
        screen="params,flops",
        keep="20%",
        on_progress=events.append,
    )
    assert [(p.stage, p.done, p.total) for p in events] == [
        *(("screening", done, 10) for done in range(11)),
        *(("scoring", done, 2) for done in range(3)),
    ]
    assert [p.measured for p in events] == [*range(11), 0, 1, 2]


def test_a_screened_search_resumes_where_it_stopped(tmp_path):
    calls: list[str] = []

    @untrained.proxy()
    def expensive(probe: Probe) -> float:
        calls.append("scored")
        if len(calls) == 3:
            raise KeyboardInterrupt
        return float(next(probe.model.parameters()).detach().flatten()[0])

    options: dict[str, Any] = {"budget": 12, "screen": "params,flops", "keep": "50%"}
    first = search_tiny(tmp_path / "a", expensive, **options)
    assert (first.run.end_reason, len(first.ranking.standings)) == ("interrupted", 2)
    again = search_tiny(tmp_path / "a", expensive, **options)
    assert len(calls) == 3 + 4  # two are in the store
    calls.extend([""] * 3)
    undisturbed = search_tiny(tmp_path / "b", expensive, **options)
    assert again.ranking == undisturbed.ranking
    assert read_values(tmp_path / "a") == read_values(tmp_path / "b")


def test_a_search_interrupted_while_screening_has_no_records(run_folder):
    @untrained.proxy()
    def cheap(probe: Probe) -> float:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(untrained.proxies.PROXIES._members, "cheap", cheap)
        result = search_tiny(run_folder, make_weight_proxy(), budget=5, screen="cheap")
    assert (result.run.end_reason, result.records) == ("interrupted", ())


def test_stable_does_not_end_the_screening(run_folder):
    """--stable looks at the ranking by the expensive proxy, so it does not end the screening."""
    events: list[Progress] = []
    constant = untrained.proxy()(lambda probe: 1.0)
    options: dict[str, Any] = {
        "budget": 16,
        "stable": 3,
        "top": 1,
        "screen": "params",
        "keep": "50%",
    }
    result = search_tiny(run_folder, constant, on_progress=events.append, **options)
    assert max(p.done for p in events if p.stage == "screening") == 16
    assert (result.run.end_reason, len(result.ranking.standings)) == ("stable", 4)


def test_the_time_limit_counts_both_stages(run_folder, monkeypatch):
    """The clock moves by one second per reading: screening ten candidates takes eleven seconds."""
    from untrained.strategies import driver as drive_
    from untrained.workflows import time_plan

    ticks = iter(range(1000))
    monkeypatch.setattr(drive_, "perf_counter", lambda: float(next(ticks)))
    # The time before the first candidate counts too, and is 0 here.
    monkeypatch.setattr(time_plan, "perf_counter", lambda: 0.0)
    result = search_tiny(
        run_folder, make_weight_proxy(), budget=10, time="13s", screen="params", keep="100%"
    )
    assert result.run.end_reason == "time"
    assert len(result.ranking.standings) == 3


def test_a_pool_without_survivors_has_no_best(run_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(untrained.proxies.PROXIES._members, "odd", odd)
        result = search_tiny(run_folder, make_weight_proxy(), budget=16, screen="odd", keep="100%")
        assert len(result.ranking.standings) == 8  # the odd widths
        failing = untrained.proxy()(lambda probe: float("nan"))
        patch.setitem(untrained.proxies.PROXIES._members, "failing", failing)
        none = search_tiny(run_folder / "none", make_weight_proxy(), budget=6, screen="failing")
    assert (none.ranking.standings, none.ranking.failed) == ((), ())
    assert none.run.end_reason == "exhausted"


def test_another_screen_is_another_run(run_folder):
    search_tiny(run_folder, make_weight_proxy(), budget=4, screen="params")
    with pytest.raises(UsageError, match=r"another run, with screen 'params' \(now 'flops'\)"):
        search_tiny(run_folder, make_weight_proxy(), budget=4, screen="flops")
    with pytest.raises(UsageError, match=r"another run, with keep '20%' \(now '30%'\)"):
        search_tiny(run_folder, make_weight_proxy(), budget=4, screen="params", keep="30%")


def test_a_proxy_cannot_screen_for_itself(run_folder):
    """Otherwise dropped candidates would have a score by the final proxy, and be ranked."""
    with pytest.raises(
        UsageError, match="--screen and --proxy are both params; use a cheaper proxy for --screen"
    ):
        search_tiny(run_folder, "params", budget=10, screen="params", keep="50%")
    assert not run_folder.exists()


def test_a_users_proxy_is_not_confused_with_a_screening_proxy_of_the_same_name(run_folder):
    def params(probe: Probe) -> float:
        return -1.0

    with pytest.raises(
        UsageError, match="two different proxies are called params; rename one of them"
    ):
        search_tiny(run_folder, untrained.proxy()(params), screen="params")
    assert not run_folder.exists()
