"""Everything that can be named on the command line, as rows of a table.

`untrained list` prints the rows. `reference_pages.py` writes them as pages of the documentation.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from untrained.progress import ProgressCallback
    from untrained.proxies import Proxy

Row = dict[str, object]


def list_spaces() -> list[Row]:
    """Return one row per search space."""
    from untrained.spaces import SPACES

    rows: list[Row] = []
    for space in SPACES.values():
        rows.append(
            {
                "name": space.name,
                "size": space.size,
                "input": list(space.task.input_shape),
                "options": space.option_names,
                "supernet": "yes" if space.has_supernet else "",
                "about": space.about,
            }
        )
    return rows


def list_proxies() -> list[Row]:
    """Return one row per proxy, in alphabetical order."""
    from untrained.proxies import PROXIES

    rows: list[Row] = []
    for name in sorted(PROXIES):
        proxy = PROXIES[name]
        rows.append(
            {
                "name": proxy.name,
                "aspects": proxy.aspects,
                "better": describe_direction(proxy),
                "needs": list(proxy.needs),
                "samples": proxy.samples,
                "cost": describe_cost(proxy),
                "layers": proxy.layers,
                "options": describe_options(proxy),
                "combines": list(proxy.parts),
                "paper": proxy.paper,
                "version": proxy.version,
                "about": proxy.about,
                "formula": proxy.formula,
                "notes": proxy.notes,
            }
        )
    return rows


def add_measured_costs(rows: list[Row], on_progress: "ProgressCallback | None") -> list[Row]:
    """Return the rows of proxies with the milliseconds that each takes on this machine."""
    from untrained.proxies import PROXIES
    from untrained.workflows.proxy_cost import measure_proxy_costs

    costs = measure_proxy_costs(list(PROXIES.values()), on_progress)
    measured_rows = []
    for row in rows:
        milliseconds = costs.get(str(row["name"]))
        if milliseconds is not None:
            milliseconds = float(f"{milliseconds:.3g}")
        measured_row: Row = {}
        for key, value in row.items():
            measured_row[key] = value
            # The measured time is listed after the number of forward passes.
            if key == "cost":
                measured_row["milliseconds"] = milliseconds
        measured_rows.append(measured_row)
    return measured_rows


def describe_direction(proxy: "Proxy") -> str:
    """Return whether a higher or a lower score is better."""
    return "higher" if proxy.higher_is_better else "lower"


def describe_cost(proxy: "Proxy") -> str:
    """Return the cost of a proxy, such as "3 forward passes"."""
    from untrained.formatting import format_count

    return format_count(proxy.cost, "forward pass")


def describe_options(proxy: "Proxy") -> list[str]:
    """Return the options of a proxy, with their allowed values if there are only a few."""
    options = []
    for name, values in proxy.choices.items():
        if values:
            options.append(f"{name}={'|'.join(map(str, values))}")
        else:
            options.append(name)
    return options


def list_recipes() -> list[Row]:
    """Return one row per training recipe."""
    from untrained.training.recipes import RECIPES

    rows: list[Row] = []
    for recipe in RECIPES.values():
        rows.append(
            {
                "name": recipe.name,
                "epochs": recipe.epochs,
                "batch": recipe.batch,
                "rate": f"{recipe.rate:g}",
                "optimiser": recipe.optimiser,
                "options": list(recipe.options),
                "differences": recipe.differences,
                "about": recipe.about,
            }
        )
    return rows


def list_strategies() -> list[Row]:
    """Return one row per search strategy."""
    from untrained.strategies import STRATEGIES
    from untrained.strategies.parsing import NEED_TEXTS, list_options

    rows: list[Row] = []
    for name, strategy in STRATEGIES.items():
        docstring = strategy.__doc__ or ""
        rows.append(
            {
                "name": name,
                "about": docstring.partition("\n")[0],
                "needs": [NEED_TEXTS[need] for need in strategy.needs if need in NEED_TEXTS],
                "options": [str(option) for option in list_options(strategy).values()],
            }
        )
    return rows


def list_datasets() -> list[Row]:
    """Return one row per kind of data source."""
    from untrained.data import SOURCES

    return [{"name": name, "about": source.about} for name, source in SOURCES.items()]


def list_benchmarks() -> list[Row]:
    """Return one row per benchmark, with the content of its table if it has been imported."""
    from untrained.benchmarks import BENCHMARKS

    rows: list[Row] = []
    for benchmark in BENCHMARKS.values():
        rows.append(
            {
                "name": benchmark.name,
                "about": benchmark.about,
                "space": benchmark.space,
                "size": benchmark.size,
                **_describe_table(benchmark.name),
            }
        )
    return rows


def _describe_table(benchmark: str) -> Row:
    """Describe the table of a benchmark, or say why it is missing on this machine."""
    from untrained.benchmarks import open_table
    from untrained.errors import UsageError

    try:
        table = open_table(benchmark)
    except UsageError as error:
        return {"rows": None, "metrics": [], "scores": [], "file": "", "missing": str(error)}
    # A table may contain scores of one proxy for several data sets. `dict.fromkeys` removes
    # duplicates and keeps the order.
    proxies = dict.fromkeys(score.proxy for score in table.scores)
    return {
        "rows": len(table),
        "metrics": [metric.name for metric in table.metrics],
        "scores": list(proxies),
        "file": str(table.path),
        "missing": "",
    }


def list_papers() -> list[Row]:
    """Return one row per experiment: a table or figure of a paper that can be reproduced."""
    from untrained.papers import list_experiments

    return list_experiments()


CATALOGUE: dict[str, Callable[[], list[Row]]] = {
    "spaces": list_spaces,
    "proxies": list_proxies,
    "strategies": list_strategies,
    "datasets": list_datasets,
    "benchmarks": list_benchmarks,
    "papers": list_papers,
    "recipes": list_recipes,
}
