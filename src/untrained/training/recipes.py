"""How to train, as data: `recipe("quick")`, or with options in brackets, `recipe("quick(epochs=5,rate=0.05)")`.

Two recipes are ours, the others are published; each says where this package departs from the publication. A recipe
knows nothing of networks, except which options of a space make the network that it was published for.
"""

from dataclasses import dataclass, fields, replace
from math import cos, isfinite, pi
from typing import Any

from untrained._load import parse_call
from untrained.errors import UsageError, unknown
from untrained.registry import Registry
from untrained.types import Task

OPTIMISERS, SCHEDULES = ("sgd", "adamw", "adagrad"), ("cosine", "linear")


@dataclass(frozen=True)
class Recipe:
    """Everything about a training that is neither network nor data."""

    name: str
    about: str
    epochs: int
    batch: int
    rate: float  # the highest learning rate
    optimiser: str = "sgd"
    nesterov: bool = True
    decay: float = 5e-4
    decay_all: bool = True  # whether norms and biases decay too
    schedule: str = "cosine"
    final: float = 0.0  # the learning rate at the end
    warm_up: float = 0.0  # epochs in which the rate rises from nothing
    clip: float = 0.0  # the most that the norm of a gradient may be; 0: anything
    smoothing: float = 0.0  # of labels
    crop: int = 0  # pixels by which a picture is shifted at most
    flip: bool = False  # left and right
    cutout: int = 0  # side of the square that is blanked
    mixup: float = 0.0  # alpha of the Beta distribution; 0: none
    auxiliary: float = 0.4  # weight of an auxiliary tower's loss, where the network has one
    growing: bool = True  # drop path grows from nothing to what the network was built with
    average: float = 0.0  # decay of the moving average of the weights; 0: none
    bf16: bool = False  # on GPUs
    graphs: bool = False  # on GPUs: a step is recorded once and replayed then, all its kernels launched as one
    network: tuple[tuple[str, Any], ...] = ()  # options of the space, where it has them and the user has not set them
    departs: str = ""  # from the publication

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS or self.schedule not in SCHEDULES:
            raise UsageError(
                f"a recipe has an optimiser of {', '.join(OPTIMISERS)} and a schedule of {', '.join(SCHEDULES)}, "
                f"not {self.optimiser} and {self.schedule}"
            )
        if self.epochs < 1 or self.batch < 1 or not (0 < self.rate < float("inf")):
            raise UsageError("a recipe has at least 1 epoch and 1 sample a batch, and a rate above 0")
        numbers = (self.decay, self.final, self.warm_up, self.clip, self.crop, self.cutout, self.mixup, self.auxiliary)
        if any(number < 0 or not isfinite(number) for number in numbers):
            raise UsageError("nothing in a recipe is below 0 or infinite")
        if not (0 <= self.smoothing < 1 and 0 <= self.average < 1):
            raise UsageError("smoothing and average are from 0 to below 1")

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0), of `steps` an epoch: a line up, then half a cosine or a line down."""
        rising, whole = round(self.warm_up * steps), self.epochs * steps
        if step < rising:
            return self.rate * (step + 1) / rising
        t = (step - rising) / max(whole - rising, 1)
        left = (1 + cos(pi * t)) / 2 if self.schedule == "cosine" else 1 - t
        return self.final + (self.rate - self.final) * left

    @property
    def options(self) -> dict[str, Any]:
        """What may stand in brackets, and its value."""
        fixed = ("name", "about", "network", "departs")
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in fixed}

    @property
    def facts(self) -> dict[str, Any]:
        """Name and options, as plain data."""
        return {"name": self.name, **self.options}

    @property
    def label(self) -> str:
        """As it can be typed again: `quick(epochs=5)`."""
        usual = RECIPES[self.name].options
        changed = ",".join(f"{name}={value}" for name, value in self.options.items() if value != usual[name])
        return f"{self.name}({changed})" if changed else self.name

    def configured(self, **options: Any) -> "Recipe":
        """The same recipe with other options; a wrong name or kind of value is refused."""
        known = self.options
        for name, value in options.items():
            if name not in known:
                raise unknown(f"option of the recipe {self.name}", name, known)
            kind = type(known[name])
            fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
            if not fits or (isinstance(value, bool) and kind is not bool):
                wanted = f"wanted {_KINDS[kind]}, such as {known[name]!r}"
                raise UsageError(f"{name}={value!r} in the recipe {self.name}: {wanted}")
        return replace(self, **{name: type(known[name])(value) for name, value in options.items()})


_KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a word"}
RECIPES: Registry[Recipe] = Registry("recipe")


def usual(task: Task) -> str:
    """The recipe of who names none: a table has its own."""
    return "ctr" if task.loss == "bce" else "quick"


def recipe(said: str) -> Recipe:
    """The recipe that `said` names, with the options in its brackets."""
    name, options = parse_call(said)
    return RECIPES[name].configured(**options)


def labelled(facts: dict[str, Any]) -> str:
    """What to type for a recipe that is known by its facts."""
    return RECIPES[facts["name"]].configured(**{name: facts[name] for name in facts if name != "name"}).label


def _add(name: str, about: str, **facts: Any) -> None:
    RECIPES.add(name, Recipe(name, about, **facts))


_add(
    "quick",
    "Small data on a CPU, in minutes: 20 epochs with small shifts and an average of the weights.",
    epochs=20, batch=64, rate=0.1, warm_up=2.0, clip=5.0, smoothing=0.05, crop=2, average=0.99,
)  # fmt: skip

# Meant for ten minutes of one GPU and networks of about a million parameters. A batch of 512 keeps the device busy, and
# the rate grows with it (0.1 for 128 is usual); it rises over five epochs, lest deep networks break at the start. Such
# networks can learn 45,000 pictures by heart, so squares are blanked and labels smoothed. The average reaches over the
# last six epochs. Steps are replayed, because what takes the time in a small network is launching its kernels.
_add(
    "cifar",
    "Small pictures on a GPU, in minutes: 150 epochs of large batches in bfloat16, whose steps are replayed.",
    epochs=150, batch=512, rate=0.4, warm_up=5.0, clip=5.0, smoothing=0.1, crop=4, flip=True, cutout=12,
    average=0.998, decay_all=False, bf16=True, graphs=True,
)  # fmt: skip

_add(
    "darts-cifar",
    "DARTS on CIFAR (Liu et al., ICLR 2019): 600 epochs of the network with 20 cells of 36 channels.",
    epochs=600, batch=96, rate=0.025, nesterov=False, decay=3e-4, clip=5.0, crop=4, flip=True, cutout=16,
    network=(("channels", 36), ("cells", 20), ("auxiliary", True), ("drop_path", 0.2)),
    departs="The rate follows the cosine step by step, not epoch by epoch; a tenth of the training images is kept for "
    "choosing weights, where the authors take the last epoch; an incomplete last batch is left out.",
)  # fmt: skip

_add(
    "darts-imagenet",
    "DARTS on ImageNet as P-DARTS, SDARTS and NASI train it: 250 epochs, 14 cells of 48 channels.",
    epochs=250, batch=1024, rate=0.5, nesterov=False, decay=3e-5, schedule="linear", warm_up=5.0, clip=5.0,
    smoothing=0.1, crop=28, flip=True, bf16=True,
    network=(("channels", 48), ("cells", 14), ("stem", "imagenet"), ("auxiliary", True)),
    departs="Pictures are held in one size, so they are shifted, not cropped and resized at random, and colours are "
    "left alone; arithmetic is in bfloat16.",
)  # fmt: skip

_add(
    "autoformer",
    "AutoFormer (Chen et al., ICCV 2021) from scratch, as DeiT: AdamW, 500 epochs of batches of 1,024.",
    epochs=500, batch=1024, rate=1e-3, optimiser="adamw", decay=0.05, decay_all=False, final=1e-5, warm_up=20.0,
    smoothing=0.1, crop=28, flip=True, mixup=0.8, growing=False, bf16=True, network=(("drop_path", 0.1),),
    departs="Without RandAugment, CutMix and random erasing; pictures are shifted, not cropped and resized at random; "
    "arithmetic is in bfloat16.",
)  # fmt: skip

_add(
    "zen-cifar",
    "ZenNAS on CIFAR (Lin et al., ICCV 2021): 1,440 epochs with mixup.",
    epochs=1440, batch=64, rate=0.025, warm_up=5.0, smoothing=0.1, crop=4, flip=True, cutout=16, mixup=0.2,
    departs="Without AutoAugment; a square is blanked where the authors erase a rectangle at random; the strength of "
    "mixup is ours; batch norms keep the momentum that they were built with.",
)  # fmt: skip

_add(
    "ctr",
    "Tables of clicks as NASRec (Zhang et al., WWW 2023) and SiGeo train: Adagrad, the rate rising and falling once.",
    epochs=5, batch=128, rate=0.12, optimiser="adagrad", decay=0.0, warm_up=0.5, clip=5.0,
    departs="One epoch of batches of 512 is for tens of millions of rows; on fewer, more steps help until they harm, "
    "and validation keeps the epoch before that. The rate rises over the first tenth of the steps as published.",
)  # fmt: skip
