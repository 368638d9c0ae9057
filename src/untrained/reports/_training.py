"""The sections about a trained network: what it reaches, how it got there, what it takes for what, and where it was
most surely wrong.

Reads a `Trained` and turns it into text. Knows nothing of networks or how they are trained.
"""

from html import escape

from untrained import _numbers
from untrained.papers._item import Curve, Picture
from untrained.reports._figure import figure
from untrained.reports._heat import heat
from untrained.reports._html import cell, either, facts, paragraph, section, table
from untrained.training.trained import Trained

MOST_CLASSES = 40  # of a confusion matrix that can be read
PAIRS = 8  # pairs of classes that are named
_ENDINGS = {
    "epochs": "All epochs were trained.",
    "patience": "Stopped early: the accuracy on the validation part no longer rose.",
    "time": "Stopped because the time was up: the same command goes on from here.",
}


def trained(found: Trained | None) -> str:
    """All sections; nothing where nothing was trained."""
    if found is None:
        return ""
    return "".join(part(found) for part in (_result, _curves, _confusion, _calibration, _mistakes))


def headline(found: Trained) -> str:
    """`Test accuracy 98.2 % after 30 epochs, 73.3 k parameters.`"""
    epochs = len(found.curve)
    after = f"{epochs} epoch{'s' * (epochs != 1)}"
    return f"Test accuracy {_percent(found.accuracy)} after {after}, {_numbers.quantity(found.params)} parameters."


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _result(found: Trained) -> str:
    best, parts = found.chosen, found.samples
    weights = "the moving average of the weights" if best["kind"] == "average" else "the weights"
    told = {
        "Test accuracy": f"{_percent(found.accuracy)} of {parts['test']:,} samples",
        "Validation accuracy": f"{_percent(best['accuracy'])} of {parts['val']:,} samples",
        "Learned from": f"{parts['train']:,} samples",
        "Recipe": found.asked.recipe["name"],
        "Data": found.asked.data,
        "Time": _numbers.duration(found.seconds),
        "Samples a second": f"{found.samples_per_second:,.0f} on {found.asked.device}",
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
    drawn = (
        Picture("Loss", "epoch", "loss", losses, joined=True),
        Picture("Accuracy on the validation part", "epoch", "%", (curve("", "val_accuracy", 100),), joined=True),
    )
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
        f"<tr>{cell(escape(names[i]), '')}{cell(escape(names[j]), '')}{cell(f'{n:,}', 'num')}"
        f"{cell(f'{sum(counts[i]):,}', 'num')}</tr>"
        for n, i, j in pairs[:PAIRS]
    ]
    head = [("", "Truth"), ("", "Taken for"), ("num", "Times"), ("num", "Of")]
    listed = table("", head, lines) if lines else paragraph("Nothing was taken for anything else.")
    note = paragraph("A row is the truth, a column what was said; shares of the row.", "note") if drawn else ""
    return section("What is taken for what", drawn, note, listed)


def _calibration(found: Trained) -> str:
    sure, right = (tuple(100 * row[name] for row in found.calibration) for name in ("sure", "right"))
    ends = (min(sure), 100.0)
    curves = Curve("found", sure, right), Curve("ideal", ends, ends)
    drawn = Picture("", "how sure, %", "how often right, %", curves, joined=True)
    said = (
        f"Its probabilities are off by {100 * found.calibration_error:.1f} points on average: of the answers that it "
        "gives with 80 %, ideally 80 % are right."
    )
    return section("How sure it is", figure(drawn), paragraph(said, "note"))


def _mistakes(found: Trained) -> str:
    """The wrong answers that gave the truth the least chance."""
    shown = [row for row in found.mistakes if "picture" in row]
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
