"""Several recordings of one network made into one that holds for all of them.

The network is run on batches of two sizes and, where it does the same there, in training mode: a number that follows
the size of the batch is `x.shape[0]`, a truth value that follows the mode is `self.training`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from untrained._load import user_code_error
from untrained.errors import UntrainedError
from untrained.exports._anatomy import Anatomy
from untrained.exports._expressions import Attribute, Binary, Index, Lit, Text, lit, literals, rebuilt
from untrained.exports._layers import Untold
from untrained.exports.recording import Recorder, Recording


@dataclass(frozen=True)
class Run:
    """One forward pass: how many samples, in which mode, and what each block did."""

    batch: int
    training: bool
    recorder: Recorder


def recorded(network: nn.Module, inputs: Callable[[int], Tensor]) -> tuple[Run, ...]:
    """A network that may be spoiled, run on batches of two sizes, and in training mode where it does the same there."""
    anatomy = Anatomy(network)
    runs = [_run(anatomy, inputs, 2, False), _run(anatomy, inputs, 3, False)]
    try:
        trained = _run(anatomy, inputs, 2, True)
        joined([*runs, trained])
    except Exception:  # another forward pass in training mode: the one for use is written
        return tuple(runs)
    return *runs, trained


def _run(anatomy: Anatomy, inputs: Callable[[int], Tensor], batch: int, training: bool) -> Run:
    recorder = Recorder(anatomy)
    shown = inputs(batch)
    try:
        with torch.no_grad(), recorder.watching():
            anatomy.network.train(training)(shown)
    except UntrainedError:
        raise
    except (Exception, SystemExit) as error:
        raise user_code_error(type(anatomy.network).__name__, "when it was run", error) from error
    return Run(batch, training, recorder)


def joined(runs: Sequence[Run]) -> dict[int, Recording]:
    """One recording a block that holds for all runs."""
    found = {}
    for module in runs[0].recorder.anatomy.network.modules():
        each = [one for run in runs if (one := run.recorder.recordings.get(id(module)))]
        if each:
            found[id(module)] = _joined(f"{type(module).__name__}.forward", each, runs)
    return found


def _joined(name: str, known: Sequence[Recording], runs: Sequence[Run]) -> Recording:
    if len(known) < len(runs) or any(one != known[0] for one in known):
        raise Untold(f"{name} takes another way for another number of samples")
    columns = iter(zip(*(literals((one.lines, one.output)) for one in known), strict=True))

    def explained(node: Any) -> Any:
        if not isinstance(node, Lit):
            return node
        values = [part.value for part in next(columns)]
        if len(set(values)) == 1:
            return node
        if values == [run.training for run in runs]:
            return Text("self.training")
        batch = _batch(known, runs)
        times = {value / run.batch for value, run in zip(values, runs, strict=True)}
        if batch is None or len(times) > 1 or not (whole := times.pop()).is_integer():
            told = " and ".join(f"{value} for {run.batch}" for value, run in zip(values, runs, strict=True))
            raise Untold(f"{name} computes with the number of samples: {told}")
        return batch if whole == 1 else Binary("*", batch, lit(int(whole)))

    lines, output = rebuilt((known[0].lines, known[0].output), explained)
    return Recording(known[0].inputs, lines, output, known[0].shapes)


def _batch(known: Sequence[Recording], runs: Sequence[Run]) -> Any:
    """The expression for the number of samples in a block, by the shape of one of its inputs."""
    for place, name in enumerate(known[0].inputs):
        for axis in range(len(known[0].shapes[place])):
            if all(one.shapes[place][axis] == run.batch for one, run in zip(known, runs, strict=True)):
                return Index(Attribute(Text(name), "shape"), (Text(str(axis)),))
    return None
