"""What there is, as rows: the facts that `untrained list` shows and the generated docs are made of."""

from collections.abc import Callable
from typing import Any

Rows = list[dict[str, Any]]


def spaces() -> Rows:
    from untrained.spaces import SPACES

    return [
        {
            "name": s.name,
            "size": s.size,
            "input": list(s.task.input_shape),
            "options": s.option_names,
            "supernet": "yes" if s.has_supernet else "",
            "about": s.about,
        }
        for s in SPACES.values()
    ]


def proxies() -> Rows:
    from untrained._numbers import counted
    from untrained.proxies import PROXIES

    return [
        {
            "name": p.name,
            "measures": p.measures,
            "better": "higher" if p.higher_is_better else "lower",
            "needs": list(p.needs),
            "samples": p.samples,
            "cost": counted(p.cost, "forward"),
            "layers": p.layers,
            "options": [
                f"{name}={'|'.join(map(str, values))}" if values else name for name, values in p.choices.items()
            ],
            "combines": list(p.parts),
            "paper": p.paper,
            "version": p.version,
            "about": p.about,
            "formula": p.formula,
            "notes": p.notes,
        }
        for _, p in sorted(PROXIES.items())
    ]


def recipes() -> Rows:
    from untrained.training.recipes import RECIPES

    return [
        {
            "name": r.name,
            "epochs": r.epochs,
            "batch": r.batch,
            "rate": f"{r.rate:g}",
            "optimiser": r.optimiser,
            "options": list(r.options),
            "departs": r.departs,
            "about": r.about,
        }
        for r in RECIPES.values()
    ]


def strategies() -> Rows:
    from untrained.strategies import STRATEGIES
    from untrained.strategies._make import NEEDS, options_of

    return [
        {
            "name": name,
            "about": (made.__doc__ or "").partition("\n")[0],
            "needs": [NEEDS[need] for need in made.needs if need in NEEDS],
            "options": [str(option) for option in options_of(made).values()],
        }
        for name, made in STRATEGIES.items()
    ]


def datasets() -> Rows:
    from untrained.data import SOURCES

    return [{"name": name, "about": kind.about} for name, kind in SOURCES.items()]


def benchmarks() -> Rows:
    from untrained.benchmarks import BENCHMARKS, open_table
    from untrained.errors import UsageError

    def state(name: str) -> dict[str, Any]:
        try:
            table = open_table(name)
        except UsageError as error:
            return {"rows": None, "metrics": [], "scores": [], "file": "", "missing": str(error)}
        scores = list(dict.fromkeys(score.proxy for score in table.scores))
        metrics = [metric.name for metric in table.metrics]
        return {"rows": len(table), "metrics": metrics, "scores": scores, "file": str(table.path), "missing": ""}

    return [
        {"name": b.name, "about": b.about, "space": b.space, "size": b.size, **state(b.name)}
        for b in BENCHMARKS.values()
    ]


def papers() -> Rows:
    from untrained.papers import list_experiments

    return list_experiments()


CATALOGUE: dict[str, Callable[[], Rows]] = {
    "spaces": spaces,
    "proxies": proxies,
    "strategies": strategies,
    "datasets": datasets,
    "benchmarks": benchmarks,
    "papers": papers,
    "recipes": recipes,
}


PROXY_PAGE = """# Proxies

Made by `make docs` from the proxies themselves; a test keeps it so. A score never stands alone: every search also
measures `params` and `flops`, and `random` keeps everyone honest. A network without a score is a failure with a reason.

**Needs** says what of a batch is looked at, **cost** how many multiply-adds it takes, in forward passes of as many
samples (a backward pass counts two); proxies asked for together share their passes. W_l are the weights of convolutions
and linear layers, g their loss gradient, m the number of samples. `samples` is an option of every proxy:
`naswot(samples=128)`. Score your network by all of them: `untrained score ... --proxy all`. How well each ranks:
[results](results/bench-nasbench201.md). Write your own: [in ten lines](your-own-proxy.md).
"""


def proxy_page() -> str:
    """`docs/proxies.md`."""
    rows = proxies()
    lines = [
        PROXY_PAGE,
        "| proxy | measures | better | needs | samples | cost | paper |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        needs = ", ".join(row["needs"]) or "nothing"
        facts = (row["measures"], row["better"], needs, row["samples"], row["cost"], row["paper"] or "")
        lines.append(f"| [{row['name']}](#{row['name']}) | {' | '.join(map(str, facts))} |")
    return "\n".join(lines + [part for row in rows for part in _proxy_entry(row)]) + "\n"


def _proxy_entry(row: dict[str, Any]) -> list[str]:
    """Heading, sentence, formula, options, and where paper and code differ."""
    parts = [f"\n## {row['name']}\n", row["about"]]
    if row["formula"]:
        parts.append(f"\n```\n{row['formula']}\n```")
    if row["notes"]:
        parts.append(f"\n{row['notes']}")
    facts = {"Layers": row["layers"], "Options": ", ".join(f"`{o}`" for o in row["options"]), "Version": row["version"]}
    return [*parts, "\n" + ". ".join(f"{name}: {value}" for name, value in facts.items() if value) + "."]


SPACE_PAGE = """# Search spaces

Made by `make docs` from the spaces themselves; a test keeps it so. `untrained search --space NAME`; options go in
brackets, `nasbench201(channels=32)`. Every network equals its official code on the reference set: parameters,
multiply-adds and outputs (NASRec's: outputs, and all parameters that are used). Write your own:
[in twenty lines](your-own-space.md).

**FLOPs.** This field calls multiply-adds FLOPs, and so do we: `flops` counts one per multiplication and addition, in
convolutions, linear layers and attention, for one sample. torch's counter (`torch.utils.flop_counter`) counts two.
Published tables may add more: NAS-Bench-201 adds 2 per entry of a norm, 1 per ReLU, k^2 per pooled entry and 1 per bias
of the head. AutoFormer and ZenNAS have their own formulas: `count_flops(..., variant="published")` in
`spaces/autoformer/counts.py` and `spaces/zennas/counts.py`.
"""


def space_page() -> str:
    """`docs/spaces.md`."""
    from untrained.rng import generator
    from untrained.spaces import SPACES

    lines = [SPACE_PAGE, "| space | architectures | input | supernet | options |", "|---" * 5 + "|"]
    for row in spaces():
        size, shape = f"{row['size']:,}" if row["size"] else "", "x".join(map(str, row["input"]))
        lines.append(f"| {row['name']} | {size} | {shape} | {row['supernet']} | {', '.join(row['options'])} |")
    for row in spaces():
        example = SPACES[row["name"]].sample(generator("docs", row["name"]))
        lines.append(f"\n## {row['name']}\n\n{row['about']}\n\n```\n{example}\n```")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write({"proxies": proxy_page, "spaces": space_page}[sys.argv[1]]())
