"""The result of `untrained bench` and `untrained calibrate`: how well each proxy ranks."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from untrained.benchmarks.result import BenchmarkResult, ProxyResult, choose_truth_digits
from untrained.cli.terminal.console import SafeConsole
from untrained.formatting import format_count

WIDE_TERMINAL = 100  # columns; enough for all columns of the table


def show_benchmark_result(result: BenchmarkResult, page: Path) -> None:
    """Print the proxies, best first, with intervals, failures and advice.

    The table has the most important statistics, and fewer of them on a narrow terminal. The report
    and `--json` contain all of them.
    """
    console = SafeConsole()
    console.print(_make_table(result, wide=console.width >= WIDE_TERMINAL))
    for proxy_result in result.proxy_results:
        if proxy_result.failure_example:
            count = format_count(proxy_result.failed, "architecture")
            console.print_plain(
                f"{proxy_result.proxy} failed on {count}, for example: "
                f"{proxy_result.failure_example}"
            )
    for line in (*result.notes, result.advice, result.next_command):
        if line:
            console.print_plain(line)
    console.print_plain(f"report: {page}", wrap=False)


def _make_table(result: BenchmarkResult, wide: bool) -> Table:
    archs = f"{len(result.archs):,} architectures"
    caption = "equal size: rank correlation with parameters and FLOPs held fixed"
    if wide:
        caption += "; cost: number of forward passes"
    table = Table(
        title=escape(f"Rank correlation with {result.truth_about} ({archs})"),
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=wide,
    )
    table.add_column("proxy", no_wrap=True)
    headings = ["Spearman", "95 %", "equal size"]
    if wide:
        headings.append("top 5 %")
    headings.append("regret")
    if wide:
        headings += ["n", "failed", "cost"]
    else:
        headings.append("failed")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)

    regret_digits = choose_truth_digits(result.truth)
    for proxy_result in result.proxy_results:
        cells = [
            escape(proxy_result.proxy),
            _format_statistic(proxy_result, "spearman", digits=3),
            _format_interval(proxy_result),
            _format_statistic(proxy_result, "size_controlled", digits=3),
        ]
        if wide:
            cells.append(_format_statistic(proxy_result, "top_5_overlap", digits=2))
        cells.append(_format_statistic(proxy_result, "regret", regret_digits))
        failed = str(proxy_result.failed or "")
        if wide:
            cost = "" if proxy_result.cost is None else f"{proxy_result.cost:g}"
            cells += [f"{proxy_result.n:,}", failed, cost]
        else:
            cells.append(failed)
        # Baselines are bold: a proxy is useful only if it ranks better than they do.
        style = "bold" if proxy_result.kind == "baseline" else None
        table.add_row(*cells, style=style)
    return table


def _format_statistic(proxy_result: ProxyResult, name: str, digits: int) -> str:
    """Return a statistic, or "" if it is not defined."""
    estimate = proxy_result.statistics.get(name)
    if estimate is None:
        return ""
    return f"{estimate.value:.{digits}f}"


def _format_interval(proxy_result: ProxyResult) -> str:
    """Return the 95 % interval of the rank correlation, or "" if there is none."""
    spearman = proxy_result.statistics["spearman"]
    if spearman is None or spearman.low is None or spearman.high is None:
        return ""
    return f"{spearman.low:.2f} to {spearman.high:.2f}"
