"""From a training that has ended to what is written down: the chosen weights judged on the test part, once."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

from untrained._load import names_file
from untrained._typed import options
from untrained.data.parts import TEST, Part, Pictures
from untrained.strategies._run import versions
from untrained.training._feed import Feed
from untrained.training._judge import Answers, judged
from untrained.training._subject import Chosen
from untrained.training.ctr_metrics import Metrics
from untrained.training.loop import Trainer
from untrained.training.recipes import Recipe
from untrained.training.trained import MISTAKES, Asked, Trained, picture


def outcome(
    trainer: Trainer, chosen: Chosen, asked: Asked, ended: str, folder: Path, parts: Mapping[str, Part]
) -> Trained:
    """Put the best weights into the network and judge them."""
    best = trainer.best or trainer.judged(trainer.step // trainer.steps)
    trainer.model.load_state_dict(best["of"])
    test = parts[TEST]
    feed = Feed.of(test, trainer.task, trainer.recipe, trainer.device, trainer.seed)
    said = judged(trainer.model, feed.judged(), trainer.task, trainer.layout)
    normal = {"mean": test.mean.tolist(), "std": test.std.tolist()} if isinstance(test, Pictures) else {}
    return Trained(
        asked=asked,
        ended=ended,
        curve=tuple(trainer.curve),
        chosen={name: value for name, value in best.items() if name != "of"},
        samples={name: len(part) for name, part in parts.items()},
        task=asdict(trainer.task),
        normal=normal,
        params=sum(p.numel() for p in trainer.model.parameters()),
        seconds=trainer.seconds,
        samples_per_second=trainer.learned / trainer.learning if trainer.learning else 0.0,
        **(_clicks(said) if isinstance(said, Metrics) else _classified(said, test, chosen)),
        command=_command(asked, trainer.recipe, folder),
        versions=versions(),
        made_on=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        folder=str(folder),
        model=trainer.model.eval(),
    )


def _command(asked: Asked, recipe: Recipe, folder: Path) -> str:
    """What to type to get this training again; nothing for a module, which nobody can type."""
    from untrained.training.train import train

    if not asked.space and not names_file(asked.what):
        return ""

    said: dict[str, Any] = {
        "space": asked.space,
        "data": asked.data,
        "recipe": recipe.label,
        "input_shape": asked.input_shape,
    }
    said |= {"seed": asked.seed, "device": asked.device, "patience": asked.patience, "run": str(folder)}
    return f"untrained train {quote(asked.what)} {options(train, said)}"


def _clicks(said: Metrics) -> dict[str, Any]:
    """What is told of answers that are yes or no."""
    return {
        "loss": said.log_loss,
        "auc": said.auc,
        "normalised_entropy": said.normalised_entropy,
        "calibration": [asdict(each) for each in said.bins],
        "calibration_error": said.calibration_error,
    }


def _classified(said: Answers, test: Part, chosen: Chosen) -> dict[str, Any]:
    """What is told of answers that are classes."""
    classes = _classes(chosen, said)
    return {
        "accuracy": said.accuracy,
        "loss": said.loss,
        "classes": classes,
        "confusion": said.confusion(),
        "calibration": said.calibration(),
        "calibration_error": said.calibration_error(),
        "mistakes": _mistakes(said, test, classes),
    }


def _classes(chosen: Chosen, said: Answers) -> tuple[str, ...]:
    """The names that the data give their classes, else their numbers."""
    named: tuple[str, ...] = getattr(chosen.source, "classes", ())
    count = said.probabilities.shape[1]
    return tuple(named) if len(named) == count else tuple(map(str, range(count)))


def _mistakes(said: Answers, part: Part, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """The hardest mistakes, with pictures where the samples are some."""
    found = []
    for place in said.mistakes(MISTAKES):
        truth, taken = int(said.labels[place]), int(said.said[place])
        row = {"truth": classes[truth], "said": classes[taken], "chance": float(said.probabilities[place, truth])}
        shown = {"picture": picture(part.images[place])} if isinstance(part, Pictures) else {}
        found.append({**row, "sure": float(said.probabilities[place, taken]), **shown})
    return found
