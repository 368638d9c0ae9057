"""The section about a contest: its networks, their results, and whether the proxy helped."""

from html import escape

from untrained import formatting
from untrained.reports.contest_result import Contest, ContestEntry
from untrained.reports.pages.html import (
    DASH,
    make_code,
    make_collapsible,
    make_html_cell,
    make_legend_entry,
    make_paragraph,
    make_row,
    make_section,
    make_table,
    make_text_cell,
)
from untrained.reports.search_summary import SearchSummary
from untrained.reports.svg.contest_charts import draw_result_by_size, draw_result_over_time
from untrained.types import REGRESSION


def make_contest_section(summary: SearchSummary) -> str:
    """Return the verdict, the charts and the table of a contest; empty without one."""
    contest = summary.contest
    if contest is None:
        return ""
    paragraphs = [f"<p><b>{escape(contest.verdict)}</b></p>"]
    if contest.constant_text:
        paragraphs.append(make_paragraph(contest.constant_text))
    for sentence in contest.sentences:
        paragraphs.append(make_paragraph(sentence))
    if contest.passed_over_text:
        paragraphs.append(make_paragraph(contest.passed_over_text))
    if contest.end_reason == "interrupted":
        note = "The contest was interrupted: the best network so far wins."
        paragraphs.append(make_paragraph(note, "warn"))
    charts = draw_result_over_time(contest) + draw_result_by_size(contest)
    legend = make_legend_entry("", "the winner")
    figure = f'<figure><div class="pair">{charts}</div><figcaption>{legend}</figcaption></figure>'
    return make_section(
        "Contest",
        *paragraphs,
        figure,
        _make_contest_table(contest),
        make_paragraph(_describe_rules(contest), "note"),
        make_collapsible("The architectures", _make_arch_table(contest)),
    )


def make_contest_headline(contest: Contest, has_params: bool = True) -> str:
    """Return the result of the contest in one sentence.

    Args:
        contest: The contest.
        has_params: Whether to name the number of parameters of the winner.

    For example: `Winner of a contest of 14 networks: ResNet-20 (known design), 71.2 ± 3.9 % of the
    validation samples correct, 382 k parameters.`
    """
    entry = contest.winning_entry
    selection = contest.describe_selection(entry)
    result = contest.format_result(entry)
    if contest.kind == REGRESSION:
        facts = [selection, f"validation RMSE {result}"]
    else:
        facts = [selection, f"{result} of the validation samples correct"]
    if has_params and entry.params is not None:
        facts.append(f"{formatting.format_quantity(entry.params)} parameters")
    return f"Winner of a contest of {contest.count_text}: {', '.join(facts)}."


def _make_contest_table(contest: Contest) -> str:
    has_latency = any(entry.latency is not None for entry in contest.entries)
    head = [("num soft", "Network"), ("", "Selected as"), ("num", "Params")]
    if has_latency:
        head.append(("num", "Latency"))
    head += [("num", "Learning rate"), ("num", "Rounds"), ("num", "Epochs")]
    head += [("num", "Time"), ("num score", f"Validation {contest.result_title}")]
    rows = []
    for entry in contest.entries:
        is_winner = entry.number == contest.winner_number
        cells = [_make_number_cell(entry, is_winner), make_selection_cell(entry, contest)]
        params = DASH
        if entry.params is not None:
            params = formatting.format_quantity(entry.params)
        cells.append(make_text_cell(params, "num"))
        if has_latency:
            latency = DASH
            if entry.latency is not None:
                latency = formatting.format_limited_value("max_latency", entry.latency)
            cells.append(make_text_cell(latency, "num"))
        cells.append(make_text_cell(f"{entry.rate:g}", "num"))
        cells.append(make_text_cell(str(len(entry.rounds)), "num"))
        cells.append(make_text_cell(entry.epochs_text, "num"))
        cells.append(make_text_cell(formatting.format_duration(entry.seconds), "num"))
        cells.append(make_text_cell(contest.format_result(entry), "num score"))
        rows.append(make_row(cells, "first" if is_winner else ""))
    return make_table("", head, rows)


def _make_number_cell(entry: ContestEntry, is_winner: bool) -> str:
    if is_winner:
        return make_text_cell(f"winner {entry.number}", "num")
    return make_text_cell(str(entry.number), "num soft")


def make_selection_cell(entry: ContestEntry, contest: Contest | None = None) -> str:
    """Return how an entry was selected, and why it failed, if it did.

    Args:
        entry: The entry.
        contest: The contest; None while it runs.
    """
    selection = entry.selection_text
    if contest is not None:
        selection = contest.describe_selection(entry)
    content = escape(selection)
    if entry.error:
        content += f'<div class="note">{escape(entry.error)}</div>'
    return make_html_cell(content, "")


def _make_arch_table(contest: Contest) -> str:
    rows = []
    for entry in contest.entries:
        is_winner = entry.number == contest.winner_number
        code = make_html_cell(make_code(entry.arch), "arch")
        cells = [_make_number_cell(entry, is_winner), code]
        rows.append(make_row(cells, "first" if is_winner else ""))
    return make_table("", [("num soft", "Network"), ("", "Architecture")], rows)


def _describe_rules(contest: Contest) -> str:
    """Return how the contest works and how long it took."""
    seconds = formatting.format_duration(contest.seconds)
    result_title = "Accuracy"
    bias = "high"
    if contest.kind == REGRESSION:
        result_title = "RMSE"
        bias = "low"
    networks = "Every network"
    next_round = ""
    finished_rounds = contest.finished_rounds
    if finished_rounds > 1:
        networks = "Every network of a round"
        earlier_rounds = f"each of the {finished_rounds} rounds but the last"
        if finished_rounds == 2:
            earlier_rounds = "the first of the 2 rounds"
        next_round = f"; in {earlier_rounds}, about a third of the networks advanced"
    return (
        f"{networks} was trained for about the same time, on up to "
        f"{contest.train_samples:,} samples of "
        f"{contest.data} with the recipe {contest.recipe}{next_round}. "
        f"{result_title} was measured on {contest.val_samples:,} other samples; \u00b1 is its 95 % "
        f"confidence interval. It also selected the winner, so the value of the winner is slightly "
        f"too {bias}. The contest took {seconds}."
    )
