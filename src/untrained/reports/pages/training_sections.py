"""The sections about a trained network: what it reaches, how it got there, what it takes for what, and where it was
most surely wrong; where it predicts clicks, how often they come where it expects them.

Reads a `Trained` and turns it into text. Knows nothing of networks or how they are trained.
"""

from html import escape

from untrained import _numbers
from untrained._numbers import counted
from untrained.reports.pages.html import cell, either, facts, paragraph, section, table
from untrained.reports.reproduction_facts import Curve, Plot
from untrained.reports.svg.figure import figure
from untrained.reports.svg.heatmap import heat
from untrained.training.trained import Trained

MOST_CLASSES = 40  # of a confusion matrix that can be read
PAIRS = 8  # pairs of classes that are named
_ENDINGS = {
    "epochs": "All epochs were trained.",
    "patience": "Stopped early: the validation part no longer found it better.",
    "time": "Stopped because the time was up: the same command goes on from here.",
}


def trained(found: Trained | None) -> str:
    """All sections; nothing where nothing was trained."""
    if found is None:
        return ""
    of_classes = (_result, _curves, _confusion, _calibration, _mistakes)
    return "".join(part(found) for part in ((_result, _curves, _bins) if found.of_clicks else of_classes))


def headline(found: Trained) -> str:
    """`Test accuracy 98.2 % after 30 epochs, 73.3 k parameters.`"""
    after = counted(len(found.curve), "epoch") if found.curve else "part of an epoch"
    said = f"log loss {_log_loss(found.loss, found.auc)}" if found.of_clicks else f"accuracy {_percent(found.accuracy)}"
    return f"Test {said} after {after}, {_numbers.quantity(found.params)} parameters."


def _rate(found: Trained) -> str:
    return f"{found.samples_per_second:,.0f}" if found.curve else "not measured: no epoch was whole"


def _log_loss(loss: float, auc: float | None) -> str:
    return f"{loss:.4f}" + (f", AUC {auc:.4f}" if auc is not None else "")


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.2f} %"


def _result(found: Trained) -> str:
    best, parts = found.chosen, found.samples
    weights = "the moving average of the weights" if best["kind"] == "average" else "the weights"
    name = "log loss" if found.of_clicks else "accuracy"
    test, val = (
        (_log_loss(found.loss, found.auc), _log_loss(best["loss"], best.get("auc")))
        if found.of_clicks
        else (_percent(found.accuracy), _percent(best["accuracy"]))
    )
    entropy = found.normalised_entropy
    told = {
        f"Test {name}": f"{test} of {counted(parts['test'], 'sample')}",
        **({"Of always saying the mean": f"{_percent(entropy)} of its log loss"} if entropy is not None else {}),
        f"Validation {name}": f"{val} of {counted(parts['val'], 'sample')}",
        "Learned from": counted(parts["train"], "sample"),
        "Recipe": found.asked.recipe["name"],
        "Data": found.asked.data,
        "Time": _numbers.duration(found.seconds),
        "Samples a second": f"{_rate(found)} on {found.asked.device}",
    }
    chosen = (
        f"{_ENDINGS.get(found.ended, '')} The validation part chose {weights} after epoch {best['epoch']}; "
        "the test part was read once, by what was chosen."
    )
    return section("Trained", facts(told), paragraph(chosen, "note"))


def _curves(found: Trained) -> str:
    if len(found.curve) < 2:
        return ""
    epochs = tuple(row["epoch"] for row in found.curve)

    def curve(name: str, key: str, scale: float = 1.0) -> Curve:
        return Curve(name, epochs, tuple(scale * row[key] for row in found.curve))

    losses = (curve("learning", "loss"), curve("validation", "val_loss"))
    on_val = "AUC" if found.of_clicks else "Accuracy"
    key = f"val_{on_val.lower()}"
    drawn = [Plot("Loss", "epoch", "loss", losses, joined=True)]
    if key in found.curve[0]:  # there is no AUC where all rows are the same
        name = f"{on_val} on the validation part"
        drawn.append(Plot(name, "epoch", "%", (curve("", key, 100),), joined=True))
    note = "The loss of learning is that of distorted samples and smoothed labels, where the recipe asks for them."
    return section("Curves", f'<div class="pair">{"".join(map(figure, drawn))}</div>', paragraph(note, "note"))


def _confusion(found: Trained) -> str:
    """Shares of each class that were taken for each class, and the pairs that were mixed up most."""
    counts, names = found.confusion, found.classes
    rows = [[count / max(sum(row), 1) for count in row] for row in counts]
    spoken = f"Confusion matrix of {len(names)} classes; a row is the truth, a column what was said"
    drawn = either(lambda room: heat(names, rows, room, spoken)) if len(names) <= MOST_CLASSES else ""
    pairs = sorted(
        ((n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if n and i != j), key=lambda p: (-p[0], p)
    )
    lines = [
        f"<tr>{cell(names[i], '')}{cell(names[j], '')}{cell(f'{n:,}', 'num')}{cell(f'{sum(counts[i]):,}', 'num')}</tr>"
        for n, i, j in pairs[:PAIRS]
    ]
    head = [("", "Truth"), ("", "Taken for"), ("num", "Times"), ("num", "Of")]
    listed = table("", head, lines) if lines else paragraph("Nothing was taken for anything else.")
    note = paragraph("A row is the truth, a column what was said; shares of the row.", "note") if drawn else ""
    return section("What is taken for what", drawn, note, listed)


def _calibration(found: Trained) -> str:
    sure, right = (tuple(100 * row[name] for row in found.calibration) for name in ("sure", "right"))
    drawn = _against_ideal("how sure, %", "how often right, %", sure, right, 100.0)
    said = (
        f"Its probabilities are off by {100 * found.calibration_error:.1f} points on average: of the answers that it "
        "gives with 80 %, ideally 80 % are right."
    )
    return section("How sure it is", drawn, paragraph(said, "note"))


def _bins(found: Trained) -> str:
    """Predicted against observed shares of clicks, in tenths of the rows by what was predicted."""
    said, seen = (tuple(100 * row[name] for row in found.calibration) for name in ("predicted", "observed"))
    drawn = _against_ideal("predicted, %", "clicked, %", said, seen, max(said))
    told = (
        f"What it predicts is off by {100 * found.calibration_error:.1f} points on average. Each point is a tenth of "
        "the test rows, from the lowest prediction to the highest."
    )
    return section("How far its predictions can be believed", drawn, paragraph(told, "note"))


def _against_ideal(across: str, up: str, x: tuple[float, ...], y: tuple[float, ...], end: float) -> str:
    """A curve beside the one on which both are equal."""
    ends = (min(x), end)
    return figure(Plot("", across, up, (Curve("found", x, y), Curve("ideal", ends, ends)), joined=True))


def _mistakes(found: Trained) -> str:
    """The wrong answers that gave the truth the least chance."""
    # A file may name any address; a page shows only pictures that it holds itself.
    shown = [row for row in found.mistakes if str(row.get("picture", "")).startswith("data:image/png;base64,")]
    if not shown:
        return ""
    tiles = [
        f'<figure><img alt="" src="{escape(row["picture"])}"><figcaption>is {escape(row["truth"])}, said '
        f"{escape(row['said'])} ({100 * row['sure']:.0f} %)</figcaption></figure>"
        for row in shown
    ]
    note = "Of all wrong answers, those that gave the truth the least chance; in brackets how sure it was of its own."
    return section("The hardest mistakes", f'<div class="mistakes">{"".join(tiles)}</div>', paragraph(note, "note"))


def asked(found: Trained) -> dict[str, str]:
    """The settings of a training as they are listed."""
    own = {"space": found.asked.space} if found.asked.space else {}
    recipe = {name: str(value) for name, value in found.asked.recipe.items() if name != "name"}
    named = {"data": found.asked.data, "recipe": found.asked.recipe["name"]}
    return {**own, **named, **recipe, "seed": str(found.asked.seed)}
