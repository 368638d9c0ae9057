"""One winner: search, report, training, export and confirmation name the same architecture.

This holds after any sequence of searches, merges, interruptions, kills and changed data.
"""

import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from untrained.progress import Progress
from untrained.runs import store_files as stores
from untrained.training.recipes import load_recipe
from untrained.workflows import report as report_workflow
from untrained.workflows.export_subject import resolve_export_subject
from untrained.workflows.search import SearchResult, search
from untrained.workflows.training_setup import prepare_training

# A proxy whose values depend on the data, so that other data have another winner.
MINE = """
from math import sin
from torch import nn
import untrained

@untrained.space(task=untrained.Task("noise", (3, 8, 8), 3))
def mynet(choose, task):
    width = choose("width", (2, 3, 4, 5, 6, 7))
    kernel = choose("kernel", (1, 3))
    conv = nn.Conv2d(3, width, kernel, padding=kernel // 2)
    return nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(64 * width, task.num_classes))

@untrained.proxy(samples=4)
def response(probe):
    return sin(probe.params + 1000 * float(probe.batch.inputs.mean()))
"""
RUN = Path("run")


class KilledError(BaseException):
    """Ends a search at once like `kill -9`: no handler runs."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    write_data("data.npz", 0)
    return tmp_path


def write_data(name: str, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    pictures = numbers.integers(0, 255, (60, 8, 8, 3)).astype(np.uint8)
    np.savez(name, x=pictures, y=np.arange(60) % 3)


def search_response(run: Path = RUN, data: str = "data.npz", **options: Any) -> SearchResult:
    options = {"confirm": 0} | options
    return search(
        "./mine.py:mynet", "./mine.py:response", data=f"npz:{data}", run=run, workers=1, **options
    )


def list_facts(result: SearchResult) -> list[tuple[object, ...]]:
    """List the records of a search without their costs."""
    return [
        (r.arch, r.measure, r.task, r.data, r.init, r.device, r.seed, r.value, r.error)
        for r in result.records
    ]


def make_interrupt(count: int, error: type[BaseException]) -> Callable[[Progress], None]:
    """Make a progress callback that stops a search after `count` architectures."""

    def interrupt(event: Progress) -> None:
        if event.done == count:
            raise error

    return interrupt


def name_winners(run: Path = RUN) -> dict[str, str | None]:
    """Return the winner according to the report, its page, training and export."""
    reported = report_workflow.read_run_outcome(run)
    trained = prepare_training(run, "nasbench201", None, load_recipe("quick"), None, "cpu", None)
    exported = resolve_export_subject(run, "nasbench201")
    page = report_workflow.report(run).read_text(encoding="utf-8")
    shown = re.search(r"Best architecture.*?(width=\d,kernel=\d)", page, re.DOTALL)
    assert shown is not None
    return {
        "report": reported["best"],
        "page": shown[1],
        "train": trained.arch,
        "export": exported.arch,
    }


def check_winner(result: SearchResult) -> None:
    """Check that everything names the winner of the search."""
    best = str(result.best)
    assert set(name_winners().values()) == {best}
    if result.confirmation:
        assert result.confirmation.best_arch == best
        assert result.confirmation.groups[0].archs[0] == str(result.ranking.standings[0].arch)
    else:
        assert best == str(result.ranking.standings[0].arch)


@dataclass
class RandomStory:
    """A random sequence of events in a run folder."""

    draw: random.Random
    events: list[str]

    def run_event(self) -> None:
        event = self.draw.choice(
            ["search", "search", "merge", "change data", "interrupt", "kill", "confirm"]
        )
        budget = self.draw.choice([2, 5, 9, 12])
        self.events.append(f"{event} {budget}")
        if event == "merge":
            self.merge_other_run()
        elif event == "change data":
            write_data("data.npz", self.draw.randrange(10**6))
            self.finish_search(budget)
        elif event == "interrupt":
            result = search_response(
                budget=budget,
                on_progress=make_interrupt(self.draw.randint(1, budget - 1), KeyboardInterrupt),
            )
            assert result.run.end_reason == "interrupted"
            check_winner(result)
        elif event == "kill":
            with pytest.raises(KilledError):
                search_response(
                    budget=budget,
                    on_progress=make_interrupt(self.draw.randint(1, budget - 1), KilledError),
                )
            assert len(set(name_winners().values())) == 1
        elif event == "confirm":
            self.finish_search(budget, confirm=1)
        else:
            self.finish_search(budget)

    def merge_other_run(self) -> None:
        """Merge records of other data into the store of the run."""
        if not RUN.exists():
            return
        winners = name_winners() if Path(RUN, "run.json").exists() else None
        other = Path(f"other{len(self.events)}")
        write_data("other.npz", self.draw.randrange(10**6))
        search_response(other, "other.npz", budget=12)
        stores.merge_stores(RUN, [other])
        assert name_winners() == winners

    def finish_search(self, budget: int, **options: Any) -> None:
        """Run a search to its end and compare it with the same search in a new folder."""
        result = search_response(budget=budget, **options)
        check_winner(result)
        whole = search_response(Path(f"undisturbed{len(self.events)}"), budget=budget, **options)
        assert str(result.best) == str(whole.best)
        assert list_facts(result) == list_facts(whole)


@pytest.mark.parametrize("seed", range(8))
def test_everything_names_the_same_winner_after_any_events(project, seed):
    story = RandomStory(random.Random(seed), [])
    search_response(budget=5)
    for _ in range(6):
        try:
            story.run_event()
        except AssertionError as error:
            raise AssertionError(f"after {', '.join(story.events)}: {error}") from error


def test_a_smaller_budget_ranks_only_its_own_architectures(project):
    search_response(budget=12)
    small = search_response(budget=2)
    alone = search_response(Path("alone"), budget=2)
    assert len(small.ranking.standings) == 2
    assert {str(s.arch) for s in small.ranking.standings} == {
        str(s.arch) for s in alone.ranking.standings
    }
    assert name_winners() == name_winners(Path("alone"))


def test_changed_data_under_the_same_name_are_scored_again(project):
    """Scores on old and new data are not averaged as if they were seeds."""
    search_response(budget=9)
    for seed in (1, 2, 3):
        write_data("data.npz", seed)
        changed = search_response(budget=9)
        assert {standing.seeds for standing in changed.ranking.standings} == {1}
        assert len({record.data for record in changed.records if record.proxy == "response"}) == 1
        undisturbed = Path(f"undisturbed{seed}")
        search_response(undisturbed, budget=9)
        assert name_winners() == name_winners(undisturbed)


def test_records_of_other_runs_do_not_affect_the_winner(project):
    before = search_response(budget=5)
    write_data("other.npz", 7)
    search_response(Path("other"), "other.npz", budget=12)
    assert stores.merge_stores(RUN, ["other"]) > 0
    best = str(before.best)
    assert set(name_winners().values()) == {best}
    again = search_response(budget=5)
    assert list_facts(again) == list_facts(before)


def test_a_killed_search_does_not_keep_the_winner_of_an_earlier_search(project):
    """The confirmation of 12 architectures does not apply to a search for 5 that was killed after 2."""
    write_data("data.npz", 3)
    search_response(budget=12, confirm=2)
    with pytest.raises(KilledError):
        search_response(budget=5, confirm=2, on_progress=make_interrupt(2, KilledError))
    assert Path("run/contest.json").exists()
    whole = search_response(Path("alone"), budget=2)
    assert set(name_winners().values()) == {str(whole.best)}


def test_a_kill_while_a_finished_search_is_repeated_changes_nothing(project):
    before = search_response(budget=9)
    with pytest.raises(KilledError):
        search_response(budget=9, on_progress=make_interrupt(1, KilledError))
    assert set(name_winners().values()) == {str(before.best)}


def test_a_smaller_screened_search_ranks_its_own_survivors(project):
    """The store has scores of architectures that the screening of the smaller pool drops."""
    search_response(budget=12, screen="params", keep="100%")
    small = search_response(budget=6, screen="params", keep="50%", run=Path("run2"))
    shutil.copyfile("run/records.sqlite", "run2/records.sqlite")
    again = search_response(budget=6, screen="params", keep="50%", run=Path("run2"))
    assert len(again.ranking.standings) == 3
    assert list_facts(again) == list_facts(small)
    assert set(name_winners(Path("run2")).values()) == {str(small.best)}


def test_a_run_of_an_earlier_version_owns_all_records_of_its_store(project):
    whole = search_response(budget=9)
    facts = json.loads(Path("run/run.json").read_text())
    del facts["search_key"]
    Path("run/run.json").write_text(json.dumps(facts))
    assert set(name_winners().values()) == {str(whole.best)}
