"""Reference pages of the documentation that are generated from the code.

`make docs` writes them into `docs/reference/`, and a test compares them with the code.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untrained.cli.catalogue import describe_cost, describe_direction, describe_options

if TYPE_CHECKING:
    from untrained.proxies import Proxy

GENERATED = "<!-- Written by `make docs` from the code; a test compares them. -->"


def _format_row(cells: Iterable[str]) -> str:
    """Return one line of a Markdown table. A bar inside a cell is escaped."""
    texts = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(texts)} |"


def _format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_format_row(columns), f"|{'---|' * len(columns)}"]
    for row in rows:
        lines.append(_format_row(row))
    return lines


def _quote_all(texts: Iterable[str]) -> str:
    """Return texts as code, separated by commas."""
    return ", ".join(f"`{text}`" for text in texts)


# ---------------------------------------------------------------------------------- proxies

PROXY_PAGE_INTRODUCTION = f"""{GENERATED}

# Proxies

Compare a proxy with the baselines: every search also records `params` and `flops`, and `random` is
a proxy too. A network that cannot be scored has a failure with a reason instead of a score.

**Needs** is what a proxy uses of a batch. **Cost** is the number of multiply-adds, in forward
passes of the same samples (a backward pass counts as two); proxies that are computed together share
their passes. W_l are the weights of convolutions and linear layers, g is their loss gradient, and m
is the number of samples. To score your network with all proxies:
`untrained score ... --proxy all`. How well each of them ranks:
[results](../results/bench-nasbench201.md). Write your own: [tutorial](../tutorials/own-proxy.md).

Every proxy has the option `samples`: `naswot(samples=128)`. Two options occur in several proxies:

- `variant=published` computes the score as in the authors' published code, where that differs from
  the paper or from what we recommend.
- `reading` is how batch norms are treated, which couple the samples of a batch. With `fixed`, the
  gradient of a sample is that of its own output, with the batch statistics as constants. With
  `exact`, it is that of its own output, also through the statistics. With `cross`, it is the part
  of the gradient of the whole batch that flows through the activations of the sample.
"""


def render_proxy_page() -> str:
    """Return the content of `docs/reference/proxies.md`."""
    from untrained.proxies import PROXIES

    proxies = [PROXIES[name] for name in sorted(PROXIES)]
    rows = []
    for proxy in proxies:
        row = [
            f"[{proxy.name}](#{proxy.name})",
            proxy.aspects,
            describe_direction(proxy),
            ", ".join(proxy.needs) or "nothing",
            str(proxy.samples),
            describe_cost(proxy),
            proxy.paper,
        ]
        rows.append(row)
    columns = ("proxy", "aspects", "better", "needs", "samples", "cost", "paper")
    lines = [PROXY_PAGE_INTRODUCTION, *_format_table(columns, rows)]
    for proxy in proxies:
        lines += _render_proxy_section(proxy)
    return "\n".join(lines) + "\n"


def _render_proxy_section(proxy: "Proxy") -> list[str]:
    """Return heading, description, formula, remarks and options of a proxy."""
    lines = [f"\n## {proxy.name}\n", proxy.about]
    if proxy.formula:
        lines.append(f"\n```text\n{proxy.formula}\n```")
    if proxy.notes:
        lines.append(f"\n{proxy.notes}")

    facts = []
    if proxy.layers:
        facts.append(f"Layers: {proxy.layers}")
    options = describe_options(proxy)
    if options:
        facts.append(f"Options: {_quote_all(options)}")
    facts.append(f"Version: {proxy.version}")
    lines.append("\n" + ". ".join(facts) + ".")
    return lines


# ----------------------------------------------------------------------------------- spaces

SPACE_PAGE_INTRODUCTION = f"""{GENERATED}

# Search spaces

Choose a space with `untrained search --space NAME`; options are in brackets:
`nasbench201(channels=32)`. Networks of published spaces agree with the official code on a set of
reference architectures: in parameters, multiply-adds and outputs (NASRec: in outputs, and in all
parameters that are used). Write your own: [tutorial](../tutorials/own-space.md).

**FLOPs.** As usual in this field, FLOPs are multiply-adds: `flops` counts one per multiplication
and addition, in convolutions, linear layers and attention, for one sample. The counter of torch
(`torch.utils.flop_counter`) counts two. Published tables may count more: NAS-Bench-201 adds 2 per
entry of a norm, 1 per ReLU, k^2 per pooled entry and 1 per bias of the head. AutoFormer and ZenNAS
have formulas of their own: `count_flops(..., variant="published")` in `spaces/autoformer/counts.py`
and `spaces/zennas/counts.py`.
"""


def render_space_page() -> str:
    """Return the content of `docs/reference/spaces.md`."""
    from untrained.seeds import make_generator
    from untrained.spaces import SPACES

    rows = []
    for space in SPACES.values():
        row = [
            f"[{space.name}](#{space.name})",
            f"{space.size:,}" if space.size else "",
            "x".join(map(str, space.task.input_shape)),
            "yes" if space.has_supernet else "",
            ", ".join(space.option_names),
        ]
        rows.append(row)
    columns = ("space", "architectures", "input", "supernet", "options")
    lines = [SPACE_PAGE_INTRODUCTION, *_format_table(columns, rows)]
    for space in SPACES.values():
        example = space.sample(make_generator("docs", space.name))
        lines.append(f"\n## {space.name}\n\n{space.about}\n\n```text\n{example}\n```")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------- strategies

STRATEGY_PAGE_INTRODUCTION = f"""{GENERATED}

# Search strategies

Choose a strategy with `untrained search --strategy NAME`; options are in brackets:
`evolution(population=32)`. An option written `name=a|b` allows these values; an option written
`name=value` has this default.
"""


def render_strategy_page() -> str:
    """Return the content of `docs/reference/strategies.md`."""
    from untrained.cli.catalogue import list_strategies

    lines = [STRATEGY_PAGE_INTRODUCTION]
    for row in list_strategies():
        lines.append(f"## {row['name']}\n\n{row['about']}\n")
        needs = row["needs"]
        options = row["options"]
        assert isinstance(needs, list)
        assert isinstance(options, list)
        if needs:
            lines.append(f"Needs: {_quote_options(needs)}.\n")
        if options:
            lines.append(f"Options: {_quote_all(options)}.\n")
    return "\n".join(lines).rstrip() + "\n"


def _quote_options(texts: Iterable[str]) -> str:
    """Return texts separated by commas, with options such as `--validate` as code."""
    quoted_texts = []
    for text in texts:
        is_option = text.startswith("--")
        quoted_texts.append(f"`{text}`" if is_option else text)
    return ", ".join(quoted_texts)


# ---------------------------------------------------------------------------------- recipes

RECIPE_PAGE_INTRODUCTION = f"""{GENERATED}

# Training recipes

A recipe is everything about a training that is neither network nor data. Choose one with
`untrained train NETWORK --recipe NAME`; options are in brackets: `quick(epochs=40,rate=0.05)`. The
default is `photos` for your own pictures and arrays (C, H, W), `ctr` for tables with a binary
label, `table` for other data of your own, and `quick` otherwise.
"""


def render_recipe_page() -> str:
    """Return the content of `docs/reference/recipes.md`."""
    from untrained.training.recipes import RECIPES

    rows = []
    for recipe in RECIPES.values():
        row = [
            f"[{recipe.name}](#{recipe.name})",
            f"{recipe.epochs:,}",
            f"{recipe.batch:,}",
            f"{recipe.rate:g}",
            recipe.optimiser,
        ]
        rows.append(row)
    columns = ("recipe", "epochs", "batch", "learning rate", "optimiser")
    lines = [RECIPE_PAGE_INTRODUCTION, *_format_table(columns, rows)]
    for recipe in RECIPES.values():
        lines.append(f"\n## {recipe.name}\n\n{recipe.about}\n")
        if recipe.differences:
            lines.append(f"Differences from the publication: {recipe.differences}\n")
        values = [f"{name}={value}" for name, value in recipe.options.items()]
        lines.append(f"Options and their values: {_quote_all(values)}.")
    lines.append(RECIPE_OPTIONS)
    return "\n".join(lines) + "\n"


# mkdocstrings replaces the block that begins with `:::` by the documentation of the class.
RECIPE_OPTIONS = """
## What the options mean

::: untrained.training.recipes.Recipe
    options:
      members: false
      show_root_heading: false
      show_root_toc_entry: false
      show_bases: false"""


# ------------------------------------------------------------------------------------- data

DATA_PAGE_INTRODUCTION = f"""{GENERATED}

# Data sources

Every command takes data as `--data NAME` or `--data NAME:ARGUMENT`. Your own data are described in
[your own pictures](../how-to/pictures.md) and [your own tables](../how-to/tables.md). In Python,
data may also be a tensor or numpy array of inputs, a pair of inputs and labels, a torch `Dataset`
or a `DataLoader`.

A data set with files needs them under the data root: `--data-root`, else the environment variable
`UNTRAINED_DATA`, else `~/.cache/untrained` (or `$XDG_CACHE_HOME/untrained`). `untrained doctor`
shows what is there. Download the files from their publishers and put them there:

- `cifar10`, `cifar100` (<https://www.cs.toronto.edu/~kriz/cifar.html>): unpack the binary or the
  Python version. It makes the folder `cifar-10-batches-bin`, `cifar-10-batches-py`,
  `cifar-100-binary` or `cifar-100-python`.
- `mnist` (<http://yann.lecun.com/exdb/mnist/>): the folder `mnist` with the four files
  `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
  `t10k-labels-idx1-ubyte`, plain or compressed (`.gz`), or with one `.npz` archive instead.
- `fashion_mnist` (<https://github.com/zalandoresearch/fashion-mnist>): the folder `fashion_mnist`
  with files of the same names.
"""


def render_data_page() -> str:
    """Return the content of `docs/reference/data-sources.md`."""
    from untrained.data import SOURCES

    rows = []
    for name, source in SOURCES.items():
        files = ""
        if source.belongs_to_user:
            files = "yours"
        elif source.find_files is not None:
            files = "under the data root"
        rows.append([f"`{name}`", source.about, files])
    lines = [DATA_PAGE_INTRODUCTION, *_format_table(("name", "what it is", "files"), rows)]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------- benchmarks

BENCHMARK_PAGE_INTRODUCTION = f"""{GENERATED}

# Benchmarks and experiments

## Benchmarks

Tables of known results for `untrained bench`. Tables of the package need no download; how to import
the others is described in [benchmark tables](../how-to/benchmarks.md). `untrained list benchmarks`
shows which tables this machine has.
"""
EXPERIMENT_INTRODUCTION = """
## Experiments

Tables and figures of the four papers, for `untrained reproduce NAME`. It prints the published
numbers beside ours.
"""


def render_benchmark_page() -> str:
    """Return the content of `docs/reference/benchmarks.md`."""
    from untrained.benchmarks import BENCHMARKS
    from untrained.papers import EXPERIMENTS

    rows = []
    for benchmark in BENCHMARKS.values():
        source = "comes with the package" if benchmark.is_packaged else "imported"
        rows.append([f"`{benchmark.name}`", f"`{benchmark.space}`", benchmark.about, source])
    lines = [BENCHMARK_PAGE_INTRODUCTION]
    lines += _format_table(("benchmark", "space", "what it is", "table"), rows)
    lines.append(EXPERIMENT_INTRODUCTION)
    rows = []
    for experiment in EXPERIMENTS.values():
        needs = _quote_all(experiment.needs)
        rows.append([f"`{experiment.name}`", experiment.paper, experiment.about, needs])
    lines += _format_table(("experiment", "paper", "what the paper shows", "needs"), rows)
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------- commands

COMMAND_PAGE_INTRODUCTION = f"""{GENERATED}

# Commands

`untrained COMMAND --help` shows the same in the terminal. `--json` makes a
command print one JSON document instead of tables.

The exit code is 0 on success, 1 if nothing could be scored, 2 if the command line is not valid,
and 130 if it was interrupted.
"""
_VALUE_TEXTS = {"str": "text", "int": "whole number", "float": "number", "Path": "path", "bool": ""}
_EXAMPLE = "Example: "


def render_command_page() -> str:
    """Return the content of `docs/reference/commands.md`."""
    from typer.main import get_command

    from untrained.cli.app import app

    lines = [COMMAND_PAGE_INTRODUCTION]
    for name, command in _collect_commands(get_command(app)).items():
        lines += _render_command_section(name, command)
    return "\n".join(lines) + "\n"


def _collect_commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """Return every command by what is typed, such as "search" or "data card".

    Typer's classes have no common public type, so they are `Any` here.
    """
    commands: dict[str, Any] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            commands |= _collect_commands(command, f"{prefix}{name} ")
        else:
            commands[prefix + name] = command
    return commands


def _render_command_section(name: str, command: Any) -> list[str]:
    """Return heading, description, examples and tables of options of a command."""
    lines = [f"## {name}\n"]
    examples = []
    for paragraph in command.help.split("\n\n"):
        if paragraph.startswith(_EXAMPLE):
            examples.append(paragraph.removeprefix(_EXAMPLE))
        else:
            lines.append(f"{paragraph}\n")
    if examples:
        code = "\n".join(examples)
        lines.append(f"```bash\n{code}\n```\n")

    rows_by_panel: dict[str, list[list[str]]] = {}
    for parameter in command.params:
        if parameter.hidden or "--help" in parameter.opts:
            continue
        is_argument = not parameter.opts[0].startswith("--")
        panel = "Arguments" if is_argument else parameter.rich_help_panel
        row = [
            _format_parameter(parameter, is_argument),
            _escape_markdown(parameter.help or ""),
            _format_default(parameter),
        ]
        rows_by_panel.setdefault(panel, []).append(row)
    for panel, rows in rows_by_panel.items():
        lines += _format_table((panel, "", "default"), rows)
        lines.append("")
    return lines


def _format_parameter(parameter: Any, is_argument: bool) -> str:
    """Return what to type, such as "`--budget` whole number"."""
    names = _quote_all(parameter.opts)
    if is_argument:
        return names
    annotation = parameter.type_descriptor.annotation
    value = _VALUE_TEXTS[annotation.__name__]
    return f"{names} {value}".rstrip()


def _format_default(parameter: Any) -> str:
    """Return the default value, in words if the command states it so."""
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    # Compared by identity and text, because 0 is a default to show and equals False.
    if parameter.default is None or parameter.default is False or parameter.default == "":
        return ""
    return f"`{parameter.default}`"


def _escape_markdown(text: str) -> str:
    """Escape what Markdown would interpret in a help text: angle brackets and asterisks."""
    return text.replace("<", "&lt;").replace("*", "\\*")


PAGES: dict[str, Callable[[], str]] = {
    "commands": render_command_page,
    "proxies": render_proxy_page,
    "spaces": render_space_page,
    "strategies": render_strategy_page,
    "recipes": render_recipe_page,
    "data-sources": render_data_page,
    "benchmarks": render_benchmark_page,
}


def write_pages(folder: Path) -> None:
    """Write every generated page into a folder."""
    for name, render in PAGES.items():
        (folder / f"{name}.md").write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
