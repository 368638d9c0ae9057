"""No text of a run folder becomes a tag, an attribute or a script of a page, whatever field it is in."""

import json
import re
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.papers.test_reproduce import RESULT
from tests.reports.examples import make_contest, make_study
from tests.reports.test_trace_drawings import make_evaluation, make_prediction
from tests.reports.test_training_page import make_training
from untrained.errors import UsageError
from untrained.runs.folder import RunFolder
from untrained.runs.winner import read_ranking, read_winner
from untrained.workflows.report import report
from untrained.workflows.search import search

EVIL = "\"'><img src=x onerror=document.title='run'><script>document.title='run'</script></title></style>"
TAGS = set(
    "html head meta link title style body script header section h1 h2 h3 p b div span pre code button wbr dl dt dd "
    "table thead tbody tr th td details summary figure figcaption img svg g rect text circle line path polygon "
    "polyline tspan mark".split()
)


class Outline(HTMLParser):
    """The tags of a page, their attributes, its scripts and its image addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.images: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if tag == "img" and name == "src":
                self.images.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


def check_page(page: str, where: str = "") -> None:
    """Check that EVIL added nothing to the page: one script, which is ours, no handlers, no foreign addresses."""
    outline = Outline(page)
    assert outline.tags.count("script") == 1, where
    assert outline.tags.count("style") == 1, where
    assert set(outline.tags) <= TAGS, where
    assert not [name for name, _ in outline.attributes if name.startswith("on")], where
    assert all(address.startswith("data:image/png;base64,") for address in outline.images), where
    assert "document.title" not in "".join(outline.scripts), where


def write_search(folder: Path) -> None:
    """Write a run with everything that its page can show."""
    options: dict[str, Any] = {
        "strategy": "nsga2",
        "also": "params",
        "limits": {"params": "10M"},
        "workers": 1,
    }
    search(
        "nasbench201(channels=4,cells=1)", "flops", budget=4, data="noise", run=folder, **options
    )
    best = read_winner(folder).arch
    key = replace(make_training().key, arch=str(best))
    replace(make_training(), folder=str(folder), key=key).save()
    scores = [["c", [["x", 1.0], ["y", 0.0]]]]
    step = {"arch": str(best), "alpha": scores, "note": "x", "of": [{"name": "y", "value": 0.5}]}
    (folder / "trace.json").write_text(json.dumps([step, step | make_evaluation((0.5, 0.5), 3.0)]))
    (folder / "prediction.json").write_text(
        json.dumps(make_prediction([float(i) for i in range(9)]))
    )
    confirmed = {
        "winner": str(best),
        "winner_result": 70.0,
        "selected_by": ["flops"],
        "groups": [
            {"name": "flops", "about": "the best", "archs": ["a", "b"], "results": [70.0, None]}
        ],
        "contrasts": [],
        "epochs": 5,
        "samples": 480,
        "data": "digits",
        "seconds": 1.0,
        "entries": [],
    }
    (folder / "confirmed.json").write_text(json.dumps(confirmed))


def write_search_with_contest(folder: Path) -> None:
    """Write a run on images, whose winner a contest chose."""
    search(
        "nasbench201(channels=4,cells=1)", "flops", budget=8, data="noise", run=folder, workers=1
    )
    run = RunFolder.read(folder)
    run = replace(run, data_title="photos: 10 classes", export="model", export_recipe="quick")
    run.save()
    archs = [str(standing.arch) for standing in read_ranking(run).ranking.standings]
    make_contest(archs, search_key=run.search_key).save(folder)


def write_training(folder: Path) -> None:
    replace(make_training(), folder=str(folder)).save()


def write_benchmark(folder: Path) -> None:
    make_study(
        archs=12, proxies=6, folder=str(folder), advice="do", next_command="untrained search"
    ).save()


def write_reproduction(folder: Path) -> None:
    replace(RESULT, folder=str(folder)).save()


WRITERS: dict[str, Callable[[Path], None]] = {
    "search": write_search,
    "contest": write_search_with_contest,
    "training": write_training,
    "benchmark": write_benchmark,
    "reproduction": write_reproduction,
}


@pytest.fixture(scope="module", params=WRITERS)
def run_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    folder.mkdir()
    WRITERS[request.param](folder)
    check_page(report(folder).read_text())
    return folder


def list_leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the paths of all strings, numbers and nulls; of each list only the first three items."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from list_leaves(below, (*path, name))
    elif isinstance(value, list):
        for place, below in enumerate(value[:3]):
            yield from list_leaves(below, (*path, place))
    else:
        yield path


def change_leaf(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    changed = deepcopy(value)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new
    return changed


def change_name(value: Any, path: tuple[Any, ...], new: str) -> Any:
    """Return the document with the last name of a path renamed."""
    changed = deepcopy(value)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    if isinstance(inner, dict):
        inner[new] = inner.pop(path[-1])
    return changed


def report_or_refuse(folder: Path, where: str) -> bool:
    """Report a folder with changed files: a harmless page or a refusal. Return whether there is a page."""
    try:
        page = report(folder).read_text()
    except UsageError:
        return False
    check_page(page, where)
    return True


def test_evil_texts_in_every_field_and_every_name_stay_texts(run_folder):
    pages = []
    for file in sorted(run_folder.glob("*.json")):
        whole = file.read_text()
        facts = json.loads(whole)
        try:
            for path in list_leaves(facts):
                for change in (change_leaf, change_name):
                    file.write_text(json.dumps(change(facts, path, EVIL)))
                    pages.append(report_or_refuse(run_folder, f"{file.name} {path}"))
        finally:
            file.write_text(whole)
    assert sum(pages) > 20


def test_evil_texts_in_all_strings_at_once_stay_texts(run_folder):
    for file in sorted(run_folder.glob("*.json")):
        whole = file.read_text()
        facts = json.loads(whole)
        for path in list_leaves(facts):
            inner = facts
            for step in path[:-1]:
                inner = inner[step]
            if isinstance(inner[path[-1]], str) and path[-1] not in (
                "measure",
                "code",
                "kind",
                "ended",
            ):
                inner[path[-1]] = EVIL
        try:
            file.write_text(json.dumps(facts))
            report_or_refuse(run_folder, file.name)
        finally:
            file.write_text(whole)


def test_evil_texts_in_the_store_stay_texts(tmp_path):
    folder = tmp_path / "run"
    write_search(folder)
    with closing(sqlite3.connect(folder / "records.sqlite")) as database, database:
        database.execute("UPDATE archs SET arch = arch || ?", (EVIL,))
        database.execute("UPDATE records SET note = ?", (EVIL,))
        database.execute(
            "UPDATE records SET value = NULL, error = 'error', detail = ?, trace = ? WHERE id < 4",
            (EVIL, EVIL),
        )
    page = report(folder).read_text()
    check_page(page)
    assert page.count("document.title") > 3  # the texts are there, as texts


def test_only_our_own_script_and_style_may_run(run_folder):
    page = report(run_folder).read_text()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy"\s+content="([^"]*)"', page)
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for tag in ("script", "style"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.S)
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert allowed[f"{tag}-src"] == f"'sha256-{digest}'"
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    assert [name for name, value in allowed.items() if "unsafe" in value] == ["style-src-attr"]


@pytest.mark.browser
def test_nothing_runs_in_a_browser_even_if_a_text_were_not_escaped(
    browser: Any, run_folder: Path, tmp_path: Path
) -> None:
    """The content security policy is a second protection: the texts are put into the page unescaped."""
    page = report(run_folder).read_text()
    hostile = page.replace("<section>", f"<section>{EVIL[3:]}<b onclick=1 style='color:red'>", 1)
    assert hostile != page
    file = tmp_path / "report.html"
    file.write_text(hostile)
    window = browser.new_page()
    refused: list[str] = []
    window.on("console", lambda message: refused.append(message.text))
    window.goto(file.as_uri())
    assert window.title() != "run"
    assert len([text for text in refused if "Content Security Policy" in text]) >= 2
    window.close()
