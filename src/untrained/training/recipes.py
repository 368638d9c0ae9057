"""Training recipes: `load_recipe("quick")`, or with options, `load_recipe("quick(epochs=5)")`.

`quick`, `photos`, `table` and `cifar` are ours, the others are published. `differences` lists how a
published recipe differs from the publication. Some options of `photos` and `table` depend on the
data; `adapt_recipe` (`adaptation.py`) sets them.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from inspect import getdoc
from math import cos, inf, isfinite, pi
from typing import Any

from untrained.errors import UsageError, make_unknown_name_error
from untrained.names import parse_call
from untrained.registry import Registry
from untrained.types import BINARY, Task

OPTIMISERS = ("sgd", "adamw", "adagrad")
SCHEDULES = ("cosine", "linear")
AUGMENTATIONS = ("", "trivial")
_NOT_NEGATIVE = (
    "decay",
    "final_rate",
    "warm_up",
    "clip",
    "crop",
    "cutout",
    "mixup",
    "auxiliary",
)


@dataclass(frozen=True)
class Recipe:
    """Everything about a training that is neither network nor data.

    Attributes:
        epochs: Number of epochs.
        batch: Batch size.
        rate: Highest learning rate.
        optimiser: "sgd", "adamw" or "adagrad".
        nesterov: Whether SGD has Nesterov momentum.
        decay: Weight decay.
        decay_all: Whether norms and biases have weight decay too.
        schedule: Decay of the learning rate: "cosine" or "linear".
        final_rate: Learning rate at the end.
        warm_up: Number of epochs in which the learning rate rises linearly from zero.
        clip: Largest norm of the gradient; 0 for no limit.
        smoothing: Label smoothing.
        crop: Largest random shift of an image in training, in pixels, as by padding and a random
            crop.
        flip: Whether images are mirrored at random.
        cutout: Side of the square that is cut out of each image; 0 for none.
        augment: Further augmentation: "trivial" for one random change of shape or colours per image
            (`trivial_augment.py`); empty for none.
        small_share: Share of the steps, from the first one, that train on reduced pictures
            (`small_pictures.py`); 0 for none.
        mixup: Alpha of the Beta distribution of mixup; 0 for none.
        auxiliary: Weight of the loss of an auxiliary tower, if the network has one.
        growing_drop_path: Whether the drop-path rate grows from zero to the rate of the network.
        average: Decay of the moving average of the weights; 0 for none.
        bf16: Whether training computes in bfloat16, on a GPU or a CPU with instructions for it.
        graphs: Whether a GPU records a step as a CUDA graph and replays it (`cuda_graph.py`), if
            the network allows it.
        space_options: Options of the space that make the published network. They are used if the
            space has them and the user has not set them.
        from_data: Names of the options that `adapt_recipe` sets from the data. An option that the
            user sets is no longer among them.
        differences: Differences from the publication.
        name: The name, which is that of the function under `@register_recipe`.
        about: One sentence, the docstring of that function.

    Raises:
        UsageError: A value is out of range.
    """

    epochs: int
    batch: int
    rate: float
    optimiser: str = "sgd"
    nesterov: bool = True
    decay: float = 5e-4
    decay_all: bool = True
    schedule: str = "cosine"
    final_rate: float = 0.0
    warm_up: float = 0.0
    clip: float = 0.0
    smoothing: float = 0.0
    crop: int = 0
    flip: bool = False
    cutout: int = 0
    augment: str = ""
    small_share: float = 0.0
    mixup: float = 0.0
    auxiliary: float = 0.4
    growing_drop_path: bool = True
    average: float = 0.0
    bf16: bool = False
    graphs: bool = False
    space_options: tuple[tuple[str, bool | int | float | str], ...] = ()
    from_data: tuple[str, ...] = ()
    differences: str = ""
    name: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS:
            raise make_unknown_name_error("optimiser", self.optimiser, OPTIMISERS)
        if self.schedule not in SCHEDULES:
            raise make_unknown_name_error("schedule", self.schedule, SCHEDULES)
        if self.augment not in AUGMENTATIONS:
            raise make_unknown_name_error("augmentation", self.augment, AUGMENTATIONS[1:])
        if self.epochs < 1 or self.batch < 1 or not 0 < self.rate < inf:
            raise UsageError(
                "a recipe needs at least 1 epoch, a batch of at least 1 and a rate above 0"
            )
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            if value < 0 or not isfinite(value):
                raise UsageError(f"{name}={value} in a recipe must be finite and at least 0")
        for name in ("smoothing", "average", "small_share"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise UsageError(f"{name}={value} in a recipe must be at least 0 and below 1")

    def rate_at(self, step: int, steps_per_epoch: int) -> float:
        """Return the learning rate of a step, counted from 0.

        It rises linearly, then falls along half a period of a cosine or linearly.
        """
        rising_steps = round(self.warm_up * steps_per_epoch)
        if step < rising_steps:
            return self.rate * (step + 1) / rising_steps
        total_steps = self.epochs * steps_per_epoch
        progress = (step - rising_steps) / max(total_steps - rising_steps, 1)
        if self.schedule == "cosine":
            remaining = (1 + cos(pi * progress)) / 2
        else:
            remaining = 1 - progress
        return self.final_rate + (self.rate - self.final_rate) * remaining

    @property
    def augments_images(self) -> bool:
        """Whether training images are distorted or mixed at random."""
        return bool(self.crop or self.flip or self.cutout or self.augment or self.mixup)

    @property
    def options(self) -> dict[str, Any]:
        """The options that a user may set in brackets, with their values."""
        internal_fields = ("space_options", "from_data", "differences", "name", "about")
        options = {}
        for field in fields(self):
            if field.name not in internal_fields:
                options[field.name] = getattr(self, field.name)
        return options

    def to_document(self) -> dict[str, Any]:
        """Return name and options as plain data."""
        return {"name": self.name, **self.options}

    @property
    def label(self) -> str:
        """What to type for this recipe, such as `quick(epochs=5)`."""
        original = RECIPES[self.name]
        defaults = original.options
        changes = []
        for name, value in self.options.items():
            # The value of an option that was set is shown even if it is the default, because
            # otherwise it would be taken from the data.
            is_set = name in original.from_data and name not in self.from_data
            if is_set or value != defaults[name]:
                changes.append(f"{name}={value}")
        if not changes:
            return self.name
        return f"{self.name}({','.join(changes)})"

    def with_options(self, **options: object) -> "Recipe":
        """Return the same recipe with other options.

        Raises:
            UsageError: A name is unknown, or a value has the wrong type.
        """
        defaults = self.options
        changes = {}
        for name, value in options.items():
            if name not in defaults:
                raise make_unknown_name_error(f"option of the recipe {self.name}", name, defaults)
            value_type = type(defaults[name])
            if not _has_type(value, value_type):
                expected = f"expected {_TYPE_NAMES[value_type]}, such as {defaults[name]!r}"
                raise UsageError(f"{name}={value!r} in the recipe {self.name}: {expected}")
            changes[name] = value_type(value)
        from_data = tuple(name for name in self.from_data if name not in changes)
        return replace(self, from_data=from_data, **changes)


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "a string"}


def _has_type(value: object, value_type: type) -> bool:
    """Return whether a value is valid for an option of this type."""
    # In Python a bool is also an int.
    if isinstance(value, bool):
        return value_type is bool
    if value_type is float:
        return isinstance(value, int | float)
    return isinstance(value, value_type)


RECIPES: Registry[Recipe] = Registry("recipe")


def register_recipe(make_recipe: Callable[[], Recipe]) -> Recipe:
    """Register the recipe that a function returns. Used as a decorator.

    The name of the function, with hyphens for underscores, is the name of the recipe, and its
    docstring is the description.
    """
    name = make_recipe.__name__.replace("_", "-")
    about = getdoc(make_recipe) or ""
    recipe = replace(make_recipe(), name=name, about=" ".join(about.split()))
    return RECIPES.add(name, recipe)


def load_recipe(text: str) -> Recipe:
    """Load a recipe by name, with options in brackets: `quick(epochs=5,rate=0.05)`.

    Raises:
        UsageError: The name or an option is unknown, or a value has the wrong type.
    """
    name, options = parse_call(text)
    return RECIPES[name].with_options(**options)


def get_default_recipe_name(task: Task, belongs_to_user: bool) -> str:
    """Return the name of the default recipe.

    Args:
        task: The task.
        belongs_to_user: Whether the data are the user's own, not published or embedded ones.

    Returns:
        `ctr` for binary labels of a table, `photos` for the user's pictures and arrays (C, H, W),
        `table` for the user's other data, `quick` for everything else.
    """
    if task.kind == BINARY:
        return "ctr"
    if belongs_to_user and len(task.input_shape) == 3:
        return "photos"
    if belongs_to_user:
        return "table"
    return "quick"


def format_recipe(document: dict[str, Any]) -> str:
    """Return what to type for a recipe, given the result of `Recipe.to_document`."""
    options = dict(document)
    name = options.pop("name")
    return RECIPES[name].with_options(**options).label


@register_recipe
def quick() -> Recipe:
    """Small data on a CPU, in minutes: 20 epochs with small shifts and averaged weights."""
    return Recipe(
        epochs=20,
        batch=64,
        rate=0.1,
        warm_up=2.0,
        clip=5.0,
        smoothing=0.05,
        crop=2,
        average=0.99,
    )


@register_recipe
def photos() -> Recipe:
    """Pictures of your own, on any device: 60 epochs, strong augmentation that fits the data."""
    # The batch size grows with the number of pictures, and the rate with the batch size; 64 and 0.1
    # are the values for 640 to 10,000 pictures (if their size allows). Shifts and cutout are shares
    # of the side. A network of some 100,000 parameters memorises 2,000 pictures, hence the
    # augmentation and the strong weight decay, which small data need (Brigato et al., ICCV
    # workshops 2021, arXiv:2108.13122).
    return Recipe(
        epochs=60,
        batch=64,
        rate=0.1,
        warm_up=2.0,
        clip=5.0,
        decay=2e-3,
        smoothing=0.1,
        augment="trivial",
        average=0.995,
        decay_all=False,
        bf16=True,
        graphs=True,
        from_data=("batch", "rate", "crop", "flip", "cutout", "augment"),
    )


@register_recipe
def cifar() -> Recipe:
    """Small images on a GPU, in minutes: 150 epochs, large batches, bfloat16, replayed steps."""
    # Meant for ten minutes of one GPU and networks of about a million parameters. A batch of 512
    # keeps the GPU busy, and the rate grows with the batch size (0.1 for 128 is usual). The rate
    # rises for five epochs, because deep networks may diverge at the start. Such networks can
    # memorise 45,000 images, hence cutout and label smoothing. The moving average covers about six
    # epochs. Steps are replayed, because a small network spends most of its time launching kernels.
    return Recipe(
        epochs=150,
        batch=512,
        rate=0.4,
        warm_up=5.0,
        clip=5.0,
        smoothing=0.1,
        crop=4,
        flip=True,
        cutout=12,
        average=0.998,
        decay_all=False,
        bf16=True,
        graphs=True,
    )


@register_recipe
def darts_cifar() -> Recipe:
    """DARTS on CIFAR (Liu et al., ICLR 2019): 600 epochs, 20 cells of 36 channels."""
    return Recipe(
        epochs=600,
        batch=96,
        rate=0.025,
        nesterov=False,
        decay=3e-4,
        clip=5.0,
        crop=4,
        flip=True,
        cutout=16,
        space_options=(
            ("channels", 36),
            ("cells", 20),
            ("auxiliary", True),
            ("drop_path", 0.2),
        ),
        differences=(
            "The learning rate follows the cosine per step, not per epoch. A tenth of the training "
            "images is used to select the weights, whereas the authors take those of the last "
            "epoch. An incomplete last batch is left out."
        ),
    )


@register_recipe
def darts_imagenet() -> Recipe:
    """DARTS on ImageNet as in P-DARTS, SDARTS and NASI: 250 epochs, 14 cells of 48 channels."""
    return Recipe(
        epochs=250,
        batch=1024,
        rate=0.5,
        nesterov=False,
        decay=3e-5,
        schedule="linear",
        warm_up=5.0,
        clip=5.0,
        smoothing=0.1,
        crop=28,
        flip=True,
        bf16=True,
        space_options=(
            ("channels", 48),
            ("cells", 14),
            ("stem", "imagenet"),
            ("auxiliary", True),
        ),
        differences=(
            "Images are stored in one size, so they are shifted instead of cropped and resized at "
            "random. Colours are not changed. Arithmetic is in bfloat16."
        ),
    )


@register_recipe
def autoformer() -> Recipe:
    """AutoFormer (Chen et al., ICCV 2021) from scratch, as DeiT: AdamW, 500 epochs, batch 1,024."""
    return Recipe(
        epochs=500,
        batch=1024,
        rate=1e-3,
        optimiser="adamw",
        decay=0.05,
        decay_all=False,
        final_rate=1e-5,
        warm_up=20.0,
        smoothing=0.1,
        crop=28,
        flip=True,
        mixup=0.8,
        growing_drop_path=False,
        bf16=True,
        space_options=(("drop_path", 0.1),),
        differences=(
            "Without RandAugment, CutMix and random erasing. Images are shifted instead of cropped "
            "and resized at random. Arithmetic is in bfloat16."
        ),
    )


@register_recipe
def zen_cifar() -> Recipe:
    """ZenNAS on CIFAR (Lin et al., ICCV 2021): 1,440 epochs with mixup."""
    return Recipe(
        epochs=1440,
        batch=64,
        rate=0.025,
        warm_up=5.0,
        smoothing=0.1,
        crop=4,
        flip=True,
        cutout=16,
        mixup=0.2,
        differences=(
            "Without AutoAugment. A square is cut out, whereas the authors erase a random "
            "rectangle. The strength of mixup is ours. Batch norms keep the momentum of the "
            "network."
        ),
    )


@register_recipe
def ctr() -> Recipe:
    """Click prediction as in NASRec (Zhang et al., WWW 2023) and SiGeo: Adagrad, 5 epochs."""
    return Recipe(
        epochs=5,
        batch=128,
        rate=0.12,
        optimiser="adagrad",
        decay=0.0,
        warm_up=0.5,
        clip=5.0,
        differences=(
            "The published single epoch with batches of 512 is meant for tens of millions of rows. "
            "With fewer rows, more steps help until the network overfits, and validation selects "
            "the best epoch. The rate rises during the first tenth of the steps, as published."
        ),
    )


@register_recipe
def table() -> Recipe:
    """Tables with classes or numbers as labels: AdamW, epochs and batches that fit the rows."""
    # Adagrad in five epochs, as in `ctr`, suits millions of rows with identifiers. On a few
    # thousand rows without identifiers that is too short. The number of epochs falls and the batch
    # size grows with the number of rows (`adaptation.py`); 20 and 64 are the values for 5,000 rows.
    return Recipe(
        epochs=20,
        batch=64,
        rate=3e-3,
        optimiser="adamw",
        decay=1e-2,
        decay_all=False,
        warm_up=1.0,
        clip=5.0,
        from_data=("epochs", "batch"),
    )
