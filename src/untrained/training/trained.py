"""What a training leaves in its folder: `train.json` (what was asked, the curve, what came out) and `model.pt` (the
weights that were chosen, as a state dict); of a table also `schema.json` and `vocabularies.npz`, how its rows became
numbers. Knows nothing of how weights are found."""

import json
from base64 import b64encode
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untrained._files import free, reading_study, run_folder, write_whole
from untrained.data.picture_card import proposed_batch
from untrained.errors import UsageError
from untrained.training.recipes import labelled

if TYPE_CHECKING:
    from torch import Tensor, nn

FILE = "train.json"
MISTAKES = 24  # shown as pictures
_SIDE = 96  # pixels of a picture on the page, at most


class AnotherTraining(UsageError):  # noqa: N818 - it names what lies in a folder
    """So that whoever has room elsewhere can go there."""


@dataclass(frozen=True)
class Asked:
    """What a training asks for, and all that its weights depend on: the key of a training. Two with equal keys make
    the same weights on one kind of machine."""

    what: str  # as it can be typed again, or the class of a module
    space: str  # with the options that the recipe added; empty for a network of the user's own
    arch: str
    data: str
    recipe: dict[str, Any]  # its name and every option
    seed: int
    device: str
    input_shape: str = ""  # where one was asked for
    patience: int | None = None
    code: str = ""  # fingerprint of the user's code, or of the module
    samples: str = ""  # fingerprint of all samples of the data
    torch: str = ""  # its version

    def require_same(self, before: "Asked", folder: Path) -> None:
        """Refuse a folder that holds another training, and say what is not the same."""
        ours = _flat(asdict(self))
        theirs = _flat(asdict(before))
        told = []
        for name in ours:
            if name == "what" or ours[name] == theirs.get(name):
                continue
            if name == "code":
                told.append(f"{self.space or self.arch} as it was (changed since)")
            elif name == "samples":
                told.append(f"other samples in {self.data} (changed since)")
            else:
                told.append(f"{name} {theirs.get(name)!r} (now {ours[name]!r})")
        if told:
            raise AnotherTraining(
                f"{folder} holds another training, with {', '.join(told)}; for this one add --run {free(folder)}"
            )


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    """The options of the recipe beside the rest."""
    return {**{name: value for name, value in facts.items() if name != "recipe"}, **facts["recipe"]}


@dataclass(frozen=True)
class Trained:
    """What came of a training. `model` has the chosen weights and is in evaluation mode."""

    asked: Asked
    ended: str  # why: epochs, patience or time
    curve: tuple[dict[str, float], ...]  # one row an epoch
    chosen: dict[str, Any]  # the epoch whose weights were chosen, of what kind, and what the val part said of them
    loss: float  # on the test part, which was read once, by these weights; so are all numbers below
    samples: dict[str, int]  # of each part
    task: dict[str, Any]
    normal: dict[str, list[float]]  # mean and deviation of each channel; empty for tables
    params: int
    seconds: float
    samples_per_second: float  # while learning
    calibration: list[dict[str, float]]  # of classes: samples, sure, right; of clicks: predicted, observed, rows
    calibration_error: float
    command: str
    versions: dict[str, str]
    made_on: str
    accuracy: float | None = None  # of classes
    classes: tuple[str, ...] = ()
    confusion: list[list[int]] = field(default_factory=list)
    mistakes: list[dict[str, Any]] = field(default_factory=list)  # truth, said, chances, and the picture as an address
    auc: float | None = None  # of clicks; None where all rows are the same
    normalised_entropy: float | None = None
    folder: str = ""
    model: "nn.Module | None" = field(default=None, compare=False)

    @property
    def caution(self) -> str:
        """What to do otherwise, in a line, where all samples were a single batch; empty elsewhere."""
        batch, there = self.asked.recipe["batch"], self.samples["train"]
        better = proposed_batch(there, 1)
        if not better < there < batch:
            return ""
        told = f"batches of {batch} are more than the {there} samples to learn from, so that an epoch was one step"
        return f'{told}; more steps: --recipe "{labelled({**self.asked.recipe, "batch": better})}"'

    @property
    def of_clicks(self) -> bool:
        """Whether the answers are yes or no, and judged by log loss."""
        return self.accuracy is None

    def document(self) -> dict[str, Any]:
        """All that is plain data, without pictures: what `--json` prints."""
        facts = {name: value for name, value in vars(self).items() if name not in ("model", "asked", "mistakes")}
        told = [{name: value for name, value in row.items() if name != "picture"} for row in self.mistakes]
        return {**asdict(self.asked), **facts, "mistakes": told}

    def save(self) -> "Trained":
        facts = {name: value for name, value in vars(self).items() if name not in ("model", "folder")}
        with run_folder(Path(self.folder)):
            write_whole(Path(self.folder, FILE), json.dumps({**facts, "asked": asdict(self.asked)}, indent=1) + "\n")
        return self

    @staticmethod
    def read(folder: str | Path) -> "Trained":
        with reading_study(Path(folder, FILE)) as facts:
            lists = {"curve": tuple(facts["curve"]), "classes": tuple(facts["classes"])}
            return Trained(**facts | lists | {"asked": Asked(**facts["asked"]), "folder": str(folder)})


def picture(image: "Tensor") -> str:
    """A picture (H, W, C) of bytes as an address that holds it: a PNG, made smaller where it is large."""
    from PIL import Image

    pixels = image.cpu().numpy()
    made = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels[..., :3])
    made.thumbnail((_SIDE, _SIDE))
    out = BytesIO()
    made.save(out, format="PNG")
    return f"data:image/png;base64,{b64encode(out.getvalue()).decode()}"
