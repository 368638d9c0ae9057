"""Set the options of a recipe that depend on the data."""

from untrained.data import DataSource
from untrained.data.mirror import may_be_mirrored
from untrained.data.parts import TRAIN, ArrayPart, ImagePart
from untrained.data.pictures.card import propose_batch_size
from untrained.training.recipes import RECIPES, Recipe
from untrained.types import REGRESSION

# Largest shift of an image and side of the square that is cut out, as shares of the shorter side.
CROP_SHARE = 1 / 8
CUTOUT_SHARE = 1 / 3
# Number of rows of a table that a training reads in all epochs together.
TOTAL_TABLE_ROWS = 100_000
MIN_TABLE_EPOCHS = 5
MAX_TABLE_EPOCHS = 100
MIN_TABLE_STEPS = 50  # per epoch, if the table has enough rows
MIN_TABLE_BATCH = 64
MAX_TABLE_BATCH = 512


def adapt_recipe(recipe: Recipe, source: DataSource) -> Recipe:
    """Set the options in `recipe.from_data`: epochs, batch, rate, crop, flip, cutout, augment.

    - For pictures, batch, rate, crop, flip and cutout are set. For other arrays of the shape
      (channels, height, width), batch and rate are set; for tables and all other arrays, epochs and
      batch. Options that the user has set are kept.
    - A regression has no label smoothing, which is defined for class probabilities. If the recipe
      lets the data decide, its pictures get no cutout and no change of shape or colours, because
      the label may be a size, an angle or a brightness.

    The label of the returned recipe contains these values, so repeating the training does not
    measure the data again.

    Args:
        recipe: The recipe.
        source: The data to train on.

    Returns:
        The recipe with an empty `from_data`.
    """
    if source.task.kind == REGRESSION and recipe.smoothing:
        recipe = recipe.with_options(smoothing=0.0)
    if not recipe.from_data:
        return recipe
    values: dict[str, object] = {name: recipe.options[name] for name in recipe.from_data}
    part = source.parts[TRAIN]
    if isinstance(part, ImagePart):
        _, height, width, _ = part.images.shape
        side = min(height, width)
        values.update(_propose_batch_and_rate(recipe, len(part), side))
        if "crop" in values:
            values["crop"] = round(CROP_SHARE * side)
        if "cutout" in values:
            values["cutout"] = round(CUTOUT_SHARE * side)
        if source.task.kind == REGRESSION:
            values.update(_turn_off_distortions(values))
        if "flip" in values:
            values["flip"] = may_be_mirrored(part.images, part.labels)
    elif isinstance(part, ArrayPart) and len(source.task.input_shape) == 3:
        side = min(source.task.input_shape[1:])
        values.update(_propose_batch_and_rate(recipe, len(part), side))
    elif source.task.is_table or isinstance(part, ArrayPart):
        if "epochs" in values:
            values["epochs"] = _propose_table_epochs(len(part))
        if "batch" in values:
            values["batch"] = _propose_table_batch(len(part))
    return recipe.with_options(**values)


def _turn_off_distortions(values: dict[str, object]) -> dict[str, object]:
    """Return values without augmentation for those options that change the content of pictures."""
    neutral_values: dict[str, object] = {"cutout": 0, "augment": ""}
    return {name: value for name, value in neutral_values.items() if name in values}


def _propose_batch_and_rate(recipe: Recipe, pictures: int, side: int) -> dict[str, object]:
    """Return batch size and rate for a number of pictures, unless the user set them."""
    values: dict[str, object] = {}
    batch = recipe.batch
    if "batch" in recipe.from_data:
        batch = propose_batch_size(pictures, side)
        values["batch"] = batch
    if "rate" in recipe.from_data:
        # Gradients of larger batches are less noisy and allow longer steps.
        original = RECIPES[recipe.name]
        values["rate"] = original.rate * batch / original.batch
    return values


def _propose_table_epochs(rows: int) -> int:
    """Return the number of epochs in which a training reads about 100,000 rows of a table."""
    return max(MIN_TABLE_EPOCHS, min(MAX_TABLE_EPOCHS, TOTAL_TABLE_ROWS // max(rows, 1)))


def _propose_table_batch(rows: int) -> int:
    """Return a power of two as batch size, with at least 50 steps per epoch if possible."""
    batch = MIN_TABLE_BATCH
    while batch < MAX_TABLE_BATCH and MIN_TABLE_STEPS * 2 * batch <= rows:
        batch *= 2
    return batch
