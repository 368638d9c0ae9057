"""The page of a search: the best architecture, the ranking, trainings and cost."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from shlex import quote

from untrained import formatting
from untrained.drawings.draw import draw_diagram
from untrained.formatting import format_count
from untrained.reports.pages.confirmation_sections import make_confirmation_sections
from untrained.reports.pages.contest_section import make_contest_headline, make_contest_section
from untrained.reports.pages.document import (
    list_batching_facts,
    make_command_section,
    make_cost_section,
    make_document,
    make_header,
    make_settings_section,
)
from untrained.reports.pages.html import (
    make_copyable,
    make_paragraph,
    make_responsive,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.pages.progress_sections import (
    make_front_section,
    make_limits_section,
    make_progress_section,
)
from untrained.reports.pages.score_sections import (
    SIZES,
    make_consensus_section,
    make_distribution_section,
    make_failures_section,
    make_ranking_section,
    make_size_section,
)
from untrained.reports.pages.strategy_trace import make_trace_section
from untrained.reports.pages.training_sections import (
    make_training_headline,
    make_training_sections,
)
from untrained.reports.search_summary import SearchSummary, WorkerTimes
from untrained.reports.svg.plot import describe_direction


def render_search_page(summary: SearchSummary, reload_seconds: int | None = None) -> str:
    """Return the whole page.

    Args:
        summary: What it shows.
        reload_seconds: The page reloads after this time; None for a final page.
    """
    sections = [
        _make_search_header(summary),
        make_contest_section(summary),
        _make_best_section(summary),
        _make_training_with_warning(summary),
        _make_export_section(summary),
        make_confirmation_sections(summary),
        make_limits_section(summary),
        make_ranking_section(summary),
        make_consensus_section(summary),
        make_front_section(summary),
        make_progress_section(summary),
        make_distribution_section(summary),
        make_size_section(summary),
        make_failures_section(summary),
        make_trace_section(summary),
        _make_search_cost_section(summary),
        _make_search_settings_section(summary),
        _make_search_command_section(summary),
    ]
    headline = make_search_headline(summary)
    return make_document(summary.title, headline, sections, reload_seconds)


def make_search_headline(summary: SearchSummary) -> str:
    """Return `Best of 100: score 3.91, 1.07 M parameters, 154 M multiply-adds.`"""
    if not summary.ranking:
        if not summary.failed:
            return "Nothing was scored."
        count = len(summary.failed)
        return f"No architecture has a score; {count} failed."
    headline = _describe_best(summary)
    if summary.contest:
        # The headline of a training names the number of parameters too.
        headline = make_contest_headline(summary.contest, has_params=summary.training is None)
    if summary.confirmation and summary.confirmation.winning_design:
        design = summary.confirmation.winning_design
        headline = f"The winner is {design}, a hand-designed network."
    if summary.training:
        headline += f" {make_training_headline(summary.training)}"
    return headline


def _describe_best(summary: SearchSummary) -> str:
    """Return the rank, the score and the size of the winner in a sentence."""
    # A confirmation may select an architecture that is not the first of the ranking.
    archs = [row.arch for row in summary.ranking]
    index = 0
    if summary.best in archs:
        index = archs.index(summary.best)
    best = summary.ranking[index]
    facts = [f"score {formatting.format_significant(best.score)}"]
    for name, get_size in SIZES.items():
        size = get_size(best)
        if size is not None:
            facts.append(f"{formatting.format_quantity(size)} {name}")
    lead = f"Best of {len(archs):,}"
    if index:
        lead = (
            f"Best searched network of the contest, rank {index + 1:,} of {len(archs):,} by score"
        )
    return f"{lead}: {', '.join(facts)}."


def _make_search_header(summary: SearchSummary) -> str:
    about = summary.proxy_about.rstrip(".")
    if about:
        about = f": {about}"
    direction = describe_direction(summary.higher_is_better).capitalize()
    score = (
        f"<p>The score is <b>{escape(summary.proxy)}</b>{escape(about)}. "
        f"<b>{direction}.</b> {escape(_describe_scope(summary))}</p>"
    )
    parts = [score]
    if summary.ending:
        css_class = "warn" if summary.stopped_early else "note"
        parts.append(make_paragraph(summary.ending, css_class))
    headline = make_search_headline(summary)
    return make_header("search report", summary.made_on, summary.title, headline, *parts)


def _describe_scope(summary: SearchSummary) -> str:
    """Return how many architectures of the space were examined, and how many have no score."""
    count = format_count(summary.arch_count, "architecture")
    if summary.space_size:
        count = f"{summary.arch_count:,} of {summary.space_size:,} architectures"
    text = f"The search examined {count} of the space {summary.space}"
    failed_count = len(summary.failed)
    if failed_count:
        verb = "has" if failed_count == 1 else "have"
        text += f"; {failed_count:,} of them {verb} no score"
    text += "."
    if summary.screening:
        text = f"{summary.screening} {text}"
    return text


def _make_best_section(summary: SearchSummary) -> str:
    if not summary.ranking:
        return ""
    diagram = summary.diagram
    if diagram:
        drawing = make_responsive(lambda width: draw_diagram(diagram, max_width=width))
    else:
        note = (
            "The run folder contains no drawing of this architecture; the command below creates "
            "one."
        )
        drawing = make_paragraph(note, "note")
    if summary.confirmation and summary.confirmation.winning_design:
        winner_text = summary.confirmation.winner_text
        note = (
            f"{winner_text}. The text and the drawing below are of the best searched network, "
            "which did not win:"
        )
        design = summary.confirmation.winning_design
        return make_section(
            f"Winner: {design}", make_paragraph(note), make_copyable(summary.best), drawing
        )
    return make_section("Best architecture", make_copyable(summary.best), drawing)


def _make_training_with_warning(summary: SearchSummary) -> str:
    """Return the sections of the training in the run folder; warn if it is not of the winner."""
    training = summary.training
    if training is None:
        return ""
    sections = make_training_sections(training)
    # The search may have been resumed after the training and found a better architecture.
    if not summary.ranking or training.key.arch == summary.winner_name:
        return sections
    warning = f"The training below is of a different architecture: {training.key.arch}"
    return make_section("Earlier training", make_paragraph(warning, "warn")) + sections


def _make_export_section(summary: SearchSummary) -> str:
    """Return where the exported model is and how to predict with it; empty without an export."""
    if not summary.export:
        return ""
    folder = summary.export
    text = (
        f"The trained winner is in the folder {folder}. Its README.md lists the files, what to "
        "install, and what predict.py reads. untrained is not needed."
    )
    command = f"python {quote(str(Path(folder, 'predict.py')))} FILE ..."
    return make_section("Exported model", make_paragraph(text), make_copyable(command))


def _make_search_cost_section(summary: SearchSummary) -> str:
    facts = {}
    if summary.peak_bytes:
        facts["Peak GPU memory"] = f"{summary.peak_bytes / 2**20:,.0f} MiB"
    facts.update(list_batching_facts(sum(worker.batched for worker in summary.workers)))
    workers = _make_worker_table(summary.workers)
    note = _make_later_cost_note(summary)
    return make_cost_section(summary.cost, summary.arch_count, facts, workers, note)


def _make_later_cost_note(summary: SearchSummary) -> str:
    """Return a note on the trainings after the search, whose time the cost does not include."""
    texts = []
    if summary.contest:
        seconds = formatting.format_duration(summary.contest.seconds)
        texts.append(f"The contest took {seconds}.")
    if summary.confirmation:
        seconds = formatting.format_duration(summary.confirmation.seconds)
        texts.append(f"The contest took {seconds}.")
    if summary.training:
        texts.append(f"The training took {formatting.format_duration(summary.training.seconds)}.")
    if not texts:
        return ""
    return make_paragraph(f"This is the cost of scoring only. {' '.join(texts)}", "note")


def _make_worker_table(workers: Sequence[WorkerTimes]) -> str:
    """Return how each worker spent its time; empty for a single worker that never crashed."""
    if len(workers) < 2 and not any(worker.crashes for worker in workers):
        return ""
    head = [("", "Worker")]
    for name in ("Networks", "Building", "Moving", "Measuring", "Idle", "Crashes"):
        head.append(("num", name))
    rows = []
    for worker in workers:
        cells = [make_text_cell(worker.name, ""), make_text_cell(f"{worker.networks:,}", "num")]
        for seconds in (worker.build, worker.transfer, worker.measure, worker.idle):
            cells.append(make_text_cell(formatting.format_duration(seconds), "num"))
        cells.append(make_text_cell(str(worker.crashes), "num"))
        rows.append(make_row(cells))
    note = "A worker is idle while it starts and while it waits for the next architecture."
    return make_table("", head, rows) + make_paragraph(note, "note")


def _make_search_settings_section(summary: SearchSummary) -> str:
    settings = {"space": summary.space}
    if summary.space_size:
        settings["space size"] = f"{summary.space_size:,}"
    settings["proxy"] = summary.proxy
    settings["seeds per architecture"] = str(summary.seeds)
    settings.update(summary.settings)
    return make_settings_section(settings, summary.versions)


def _make_search_command_section(summary: SearchSummary) -> str:
    if summary.stopped_early:
        note = "Resumes this search; existing scores are kept."
        return make_command_section(summary.command, note, "Resume")
    note = "Repeats this search; the scores are the same."
    if summary.contest or summary.has_timed_trainings:
        note = (
            "Repeats the whole run. Trainings depend on the time that they get, so results can "
            "differ."
        )
    return make_command_section(summary.command, note)
