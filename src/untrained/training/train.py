"""`train(...)`: a network, data and a recipe in; a folder with weights, a curve and a judgement out.

Samples, distortions and dropout of a step follow from the seed and the number of the step, so a training that was
killed goes on from its last checkpoint to the same weights, on a CPU to the last bit. After every epoch the weights and
their moving average are judged on the val part, by accuracy or, where clicks are predicted, by log loss; the best of
all are kept, the later of equals, the average before the weights themselves. The test part is read once, at the end, by
what was kept.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from torch import nn

from untrained._files import remove_leftovers
from untrained._quantities import parse_count, parse_optional_count, parse_path, parse_seed, parse_shape, seconds
from untrained.data.parts import TEST, TRAIN, VAL, Part
from untrained.errors import Interrupted, UsageError
from untrained.identity import fingerprint_samples, torch_version
from untrained.probe.guard import fastest_kernels, random_state
from untrained.spaces import Space
from untrained.training import _checkpoint
from untrained.training._board import Board
from untrained.training._checkpoint import CHECKPOINT, WEIGHTS, portable
from untrained.training._crowd import SEVERAL, crowd
from untrained.training._folder import lying, set_aside
from untrained.training._judge import Diverged
from untrained.training._outcome import outcome
from untrained.training._subject import Chosen, resolved, run_of
from untrained.training.loop import Trainer
from untrained.training.recipes import RECIPES, Recipe, labelled, recipe, usual
from untrained.training.trained import FILE, Asked, Trained
from untrained.types import Arch

EVERY = 200  # steps between checkpoints, besides those after every epoch


@dataclass(frozen=True)
class Moment:
    """How far a training is; losses and accuracy are those of the last whole epoch. Clicks have no accuracy."""

    epoch: int
    epochs: int
    step: int
    steps: int  # of all epochs
    loss: float | None
    accuracy: float | None
    val_loss: float | None = None


Watcher = Callable[[Moment], None]


def train(
    what: "nn.Module | Arch | str | Path",
    data: str | None = None,
    recipe: str | None = None,
    *,
    space: str | Space = "nasbench201",
    epochs: int | None = None,
    run: str | Path | None = None,
    device: str = "cpu",
    seed: int | None = None,
    patience: int | None = None,
    time: str | None = None,
    every: int = EVERY,
    input_shape: tuple[int, ...] | None = None,
    tensorboard: bool = False,
    data_root: str | Path | None = None,
    watch: Watcher | None = None,
) -> Trained:
    """Train `what` on `data` by `recipe` (`quick`, and for tables `ctr`), and judge it once on samples that had no say.

    `what` is an architecture of `space`, its string, a run folder (its winner, on the data of that run unless others
    are named), `./file.py:factory`, or a module, which is copied. A recipe takes options in brackets:
    "quick(epochs=5,rate=0.05)". It ends early after `patience` epochs without a better one, or after `time` ("5m").
    A run that was trained in its folder before keeps its recipe, and its own seed, unless others are named; where it
    has another winner since, what was trained is kept in a folder inside. The same call on the same folder goes on
    where it was killed, and gives the result again where it was finished.
    """
    every = parse_count(every, "every")
    epochs = parse_optional_count(epochs, "epochs")
    patience = parse_optional_count(patience, "patience")
    if seed is not None:
        seed = parse_seed(seed)
    if input_shape is not None:
        input_shape = parse_shape(input_shape)
    if run is not None:
        run = parse_path(run, "run")
    limit = inf if time is None else seconds(time)
    who = crowd(device)
    said = recipe or _known(what)
    how = _recipe(said or "quick", epochs)
    if (time or patience) and device == SEVERAL:  # each has its own clock and its own running statistics
        raise UsageError("several processes do not agree when to stop; leave out --time and --patience")
    chosen = resolved(what, space, data, how, input_shape, who.device, data_root)
    how = how if said else _recipe(usual(chosen.source.task), epochs)
    seed = chosen.seed if seed is None else seed
    parts = _parts(chosen)
    asked = Asked(
        what=chosen.what,
        space=chosen.space,
        arch=chosen.arch,
        data=chosen.data,
        recipe=how.facts,
        seed=seed,
        device=device,
        input_shape="x".join(map(str, input_shape or ())),
        patience=patience,
        code=chosen.fingerprint_code(),
        samples=fingerprint_samples(parts),
        torch=torch_version(),
    )
    folder = Path(run) if run else chosen.folder(how.name, asked.code, asked.samples)
    if folder == chosen.home:
        if who.writes and (former := lying(folder)) and former.arch != asked.arch:
            set_aside(folder)
        who.wait()  # until the folder is as all of them shall find it
    if before := _finished(folder, asked):
        if who.writes:
            with suppress(OSError):  # a finished training may lie on a disk that cannot be written
                _remove_checkpoint(folder)  # left by a process that was killed just before it did so
        return replace(before, model=_with_weights(chosen, folder, who.device, seed))
    trainer = Trainer(chosen, how, parts, who, seed)
    trainer.resume(folder / CHECKPOINT, asked)
    board = Board(folder / "tensorboard") if tensorboard else None

    def save() -> None:
        if who.writes:
            _checkpoint.save(folder / CHECKPOINT, trainer.state(asked))

    with random_state(seed), fastest_kernels(who.device), _told(trainer, folder):
        ended = trainer.run(save, every, patience, limit, lambda: _tell(trainer, watch, board))
        found = outcome(trainer, chosen, asked, ended, folder, parts)
    if who.writes:
        _checkpoint.save(folder / WEIGHTS, portable(trainer.model))
        if chosen.source.schema:
            chosen.source.schema.save(folder)
        found.save()
        if ended != "time":
            _remove_checkpoint(folder)
    who.wait()
    return found


@contextmanager
def _told(trainer: Trainer, folder: Path) -> Iterator[None]:
    """What ends a training before its time, in one line."""
    try:
        yield
    except KeyboardInterrupt:
        at = f"in epoch {trainer.step // trainer.steps + 1} of {trainer.recipe.epochs}"
        kept = f"the last checkpoint is in {folder}, and the same command goes on from it"
        there = (folder / CHECKPOINT).is_file()
        raise Interrupted(f"stopped by Ctrl-C {at}; {kept if there else 'nothing was kept yet'}") from None
    except Diverged as why:
        (folder / CHECKPOINT).unlink(missing_ok=True)
        raise UsageError(f"{why}; try a lower rate: --recipe '{_with_lower_rate(trainer.recipe).label}'") from None


def _with_lower_rate(diverged: Recipe) -> Recipe:
    """The recipe with a tenth of its rate, and no more than the rate that it was made for."""
    tenth = float(f"{diverged.rate / 10:g}")
    return diverged.configured(rate=min(tenth, RECIPES[diverged.name].rate))


def _tell(trainer: Trainer, watch: Watcher | None, board: Board | None) -> None:
    last: dict[str, float] = trainer.curve[-1] if trainer.curve else {}
    if board and trainer.step % trainer.steps == 0:
        board.add(last)
    if watch:
        epochs, steps = trainer.recipe.epochs, trainer.steps
        at = min(trainer.step // steps + 1, epochs), epochs, trainer.step, epochs * steps
        watch(Moment(*at, last.get("loss"), last.get("val_accuracy"), last.get("val_loss")))


def _parts(chosen: Chosen) -> dict[str, Part]:
    parts = {name: chosen.source.parts[name] for name in (TRAIN, VAL, TEST)}
    if empty := next((name for name, part in parts.items() if not len(part)), None):
        raise UsageError(f"{chosen.data} has no samples for the {empty} part; it needs some of each class")
    return parts


def _recipe(said: str, epochs: int | None) -> Recipe:
    found = recipe(said)
    return found if epochs is None else found.configured(epochs=epochs)


def _known(what: object) -> str | None:
    """The recipe by which the winner of a run was trained in its folder already: a search may have chosen its rate."""
    home = run_of(what)
    before = lying(home) if home else None
    return labelled(before.recipe) if before else None


def _finished(folder: Path, asked: Asked) -> Trained | None:
    """What an earlier call made in this folder, where there is nothing left to do; another training is refused."""
    if not (folder / FILE).is_file():
        return None
    before = Trained.read(folder)
    asked.require_same(before.asked, folder)
    return before if before.ended != "time" else None


def _remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a finished training, and what killed processes left of one."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
    remove_leftovers(folder / CHECKPOINT)
    remove_leftovers(folder / WEIGHTS)


def _with_weights(chosen: Chosen, folder: Path, device: str, seed: int) -> nn.Module:
    model = chosen.network(device, seed)
    _checkpoint.fill(model, _checkpoint.load(folder / WEIGHTS), folder / WEIGHTS)
    return model.eval()
