"""Everything that can be named on the command line, as rows of a table.

`untrained list` prints the rows. `make docs` writes `docs/proxies.md` and `docs/spaces.md` with
`python -m untrained.cli.catalogue proxies` and `... spaces`.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
                "better": _describe_direction(proxy),
                "needs": list(proxy.needs),
                "samples": proxy.samples,
                "cost": _describe_cost(proxy),
                "layers": proxy.layers,
                "options": _describe_options(proxy),
                "combines": list(proxy.parts),
                "paper": proxy.paper,
                "version": proxy.version,
                "about": proxy.about,
                "formula": proxy.formula,
                "notes": proxy.notes,
            }
        )
    return rows


def _describe_direction(proxy: "Proxy") -> str:
    return "higher" if proxy.higher_is_better else "lower"


def _describe_cost(proxy: "Proxy") -> str:
    from untrained.formatting import format_count

    return format_count(proxy.cost, "forward")


def _describe_options(proxy: "Proxy") -> list[str]:
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
    """Return one row per table or figure that can be reproduced."""
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


PROXY_PAGE_INTRODUCTION = """# Proxies

`make docs` writes this page from the code, and a test compares them. Compare a proxy with the
baselines: every search also records `params` and `flops`, and `random` is a proxy too. A network
that cannot be scored has a failure with a reason instead of a score.

**Needs** is what a proxy uses of a batch. **Cost** is the number of multiply-adds, in forward
passes of the same samples (a backward pass counts as two); proxies that are computed together share
their passes. W_l are the weights of convolutions and linear layers, g is their loss gradient, and m
is the number of samples. Every proxy has the option `samples`: `naswot(samples=128)`. To score your
network with all of them: `untrained score ... --proxy all`. How well each of them ranks:
[results](results/bench-nasbench201.md). Write your own: [in ten lines](your-own-proxy.md).
"""


def render_proxy_page() -> str:
    """Return the content of `docs/proxies.md`."""
    from untrained.proxies import PROXIES

    proxies = [PROXIES[name] for name in sorted(PROXIES)]
    lines = [
        PROXY_PAGE_INTRODUCTION,
        "| proxy | aspects | better | needs | samples | cost | paper |",
        "|---|---|---|---|---|---|---|",
    ]
    for proxy in proxies:
        cells = [
            f"[{proxy.name}](#{proxy.name})",
            proxy.aspects,
            _describe_direction(proxy),
            ", ".join(proxy.needs) or "nothing",
            str(proxy.samples),
            _describe_cost(proxy),
            proxy.paper or "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for proxy in proxies:
        lines += _render_proxy_section(proxy)
    return "\n".join(lines) + "\n"


def _render_proxy_section(proxy: "Proxy") -> list[str]:
    """Return heading, description, formula, remarks and options of a proxy."""
    lines = [f"\n## {proxy.name}\n", proxy.about]
    if proxy.formula:
        lines.append(f"\n```\n{proxy.formula}\n```")
    if proxy.notes:
        lines.append(f"\n{proxy.notes}")

    facts = []
    if proxy.layers:
        facts.append(f"Layers: {proxy.layers}")
    options = _describe_options(proxy)
    if options:
        quoted = ", ".join(f"`{option}`" for option in options)
        facts.append(f"Options: {quoted}")
    facts.append(f"Version: {proxy.version}")
    lines.append("\n" + ". ".join(facts) + ".")
    return lines


SPACE_PAGE_INTRODUCTION = """# Search spaces

`make docs` writes this page from the code, and a test compares them. Choose a space with
`untrained search --space NAME`; options are in brackets: `nasbench201(channels=32)`. Networks of
published spaces agree with the official code on a set of reference architectures: in parameters,
multiply-adds and outputs (NASRec: in outputs, and in all parameters that are used). Write your own:
[in twenty lines](your-own-space.md).

**FLOPs.** As usual in this field, FLOPs are multiply-adds: `flops` counts one per multiplication
and addition, in convolutions, linear layers and attention, for one sample. The counter of torch
(`torch.utils.flop_counter`) counts two. Published tables may count more: NAS-Bench-201 adds 2 per
entry of a norm, 1 per ReLU, k^2 per pooled entry and 1 per bias of the head. AutoFormer and ZenNAS
have formulas of their own: `count_flops(..., variant="published")` in `spaces/autoformer/counts.py`
and `spaces/zennas/counts.py`.
"""


def render_space_page() -> str:
    """Return the content of `docs/spaces.md`."""
    from untrained.seeds import make_generator
    from untrained.spaces import SPACES

    lines = [
        SPACE_PAGE_INTRODUCTION,
        "| space | architectures | input | supernet | options |",
        "|---|---|---|---|---|",
    ]
    for space in SPACES.values():
        cells = [
            space.name,
            f"{space.size:,}" if space.size else "",
            "x".join(map(str, space.task.input_shape)),
            "yes" if space.has_supernet else "",
            ", ".join(space.option_names),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for space in SPACES.values():
        example = space.sample(make_generator("docs", space.name))
        lines.append(f"\n## {space.name}\n\n{space.about}\n\n```\n{example}\n```")
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {"proxies": render_proxy_page, "spaces": render_space_page}

if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
