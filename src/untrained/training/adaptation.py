"""Set the options of a recipe that depend on the data."""

from untrained.data import DataSource
from untrained.data.mirror import may_be_mirrored
from untrained.data.parts import TRAIN, ImagePart
from untrained.data.pictures.card import propose_batch_size
from untrained.training.recipes import RECIPES, Recipe

# Largest shift of an image and side of the square that is cut out, as shares of the shorter side.
CROP_SHARE = 1 / 8
CUTOUT_SHARE = 1 / 3


def adapt_recipe(recipe: Recipe, source: DataSource) -> Recipe:
    """Set the options in `recipe.from_data`: batch, rate, crop, flip and cutout.

    The label of the returned recipe has these values, so that it repeats the training without the
    data being measured again. Options that the user set are kept. Rows of a table keep the values
    of the recipe.

    Args:
        recipe: The recipe.
        source: The data to train on.

    Returns:
        The recipe with an empty `from_data`.
    """
    if not recipe.from_data:
        return recipe
    values: dict[str, object] = {name: recipe.options[name] for name in recipe.from_data}
    part = source.parts[TRAIN]
    if isinstance(part, ImagePart):
        _, height, width, _ = part.images.shape
        side = min(height, width)
        batch = recipe.batch
        if "batch" in values:
            batch = propose_batch_size(len(part), side)
            values["batch"] = batch
        if "rate" in values:
            # Gradients of larger batches are less noisy and allow longer steps.
            original = RECIPES[recipe.name]
            values["rate"] = original.rate * batch / original.batch
        if "crop" in values:
            values["crop"] = round(CROP_SHARE * side)
        if "cutout" in values:
            values["cutout"] = round(CUTOUT_SHARE * side)
        if "flip" in values:
            values["flip"] = may_be_mirrored(part.images, part.labels)
    return recipe.with_options(**values)
