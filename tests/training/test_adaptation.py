"""The recipe `photos`: the default for own pictures, with options that are set from the data."""

from pathlib import Path

from tests.data.test_mirror import make_arrows, make_blobs
from tests.training.toys import SHAPE, get_weights, make_busy, states_equal, write_archive
from untrained.data import DataSource
from untrained.data.parts import ImagePart
from untrained.training.adaptation import adapt_recipe
from untrained.training.recipes import (
    RECIPES,
    format_recipe,
    get_default_recipe_name,
    load_recipe,
)
from untrained.training.result import TrainingResult
from untrained.types import Task
from untrained.workflows.train import train


def make_source(images, labels) -> DataSource:
    mean = images.float().mean((0, 1, 2)) / 255
    part = ImagePart(images, labels, mean, mean)
    return DataSource(Task("x", (1, 16, 16), 2), lambda *_: None, lambda: {"train": part})


def test_photos_is_the_default_for_own_pictures_only():
    pictures = Task("x", (3, 32, 32), 10)
    assert get_default_recipe_name(pictures, belongs_to_user=True) == "photos"
    assert get_default_recipe_name(pictures, belongs_to_user=False) == "quick"
    assert get_default_recipe_name(Task("x", (9,), 1, "bce"), belongs_to_user=True) == "ctr"
    assert get_default_recipe_name(Task("x", (9,), 3), belongs_to_user=True) == "table"
    assert get_default_recipe_name(Task("x", (9,), 1, "mse"), belongs_to_user=True) == "table"
    assert get_default_recipe_name(Task("x", (9,), 3), belongs_to_user=False) == "quick"


def test_options_are_set_from_the_data_and_the_label_repeats_them():
    """200 pictures of 16 pixels: ten steps need batches below 20, hence 16, a quarter of 64."""
    recipe = load_recipe("photos(epochs=5)")
    adapted = adapt_recipe(recipe, make_source(*make_blobs(200)))
    assert (adapted.batch, adapted.rate) == (16, RECIPES["photos"].rate / 4)
    assert (adapted.crop, adapted.cutout, adapted.flip) == (16 // 8, 5, True)
    assert adapted.epochs == 5
    assert adapted.from_data == ()
    assert load_recipe(adapted.label) == adapted
    assert format_recipe(adapted.to_document()) == adapted.label
    arrows = adapt_recipe(recipe, make_source(*make_arrows(200)))
    assert not arrows.flip
    # The label has the value although it is that of the recipe before it was adapted.
    assert "flip=False" in arrows.label
    assert load_recipe(arrows.label) == arrows


def test_options_of_the_user_are_kept():
    source = make_source(*make_blobs(200))
    text = "photos(flip=False,crop=0,batch=32,rate=0.3,cutout=1,augment=)"
    assert adapt_recipe(load_recipe(text), source) == load_recipe(text)
    own_batch = adapt_recipe(load_recipe("photos(batch=128)"), source)
    assert own_batch.rate == 2 * RECIPES["photos"].rate
    assert own_batch.crop == 2
    quick = load_recipe("quick")
    assert adapt_recipe(quick, source) is quick
    assert load_recipe("photos").label == "photos"


def test_own_pictures_are_trained_with_photos_and_the_result_repeats_it(tmp_path: Path):
    """The class of a stripe is its place: class 0 is the mirror image of class 2."""
    data = write_archive(tmp_path)
    result = train(make_busy(), data, epochs=2, run=tmp_path / "a", input_shape=SHAPE)
    recipe = result.key.recipe
    assert (recipe["name"], recipe["epochs"], recipe["flip"]) == ("photos", 2, False)
    assert (recipe["batch"], recipe["crop"], recipe["cutout"]) == (8, 1, 2)
    note = "pictures are not mirrored in training, because left and right distinguish their classes"
    assert result.notes == (note,)
    assert TrainingResult.read(tmp_path / "a").notes == (note,)
    label = format_recipe(recipe)
    again = train(make_busy(), data, label, run=tmp_path / "b", input_shape=SHAPE)
    assert states_equal(get_weights(again), get_weights(result))
    # The decision of the user needs no explanation.
    assert again.notes == ()


def test_every_part_of_the_recipe_of_photos_has_an_effect(tmp_path: Path):
    data = write_archive(tmp_path)
    trivial = train(make_busy(), data, "photos(epochs=1)", run=tmp_path / "a", input_shape=SHAPE)
    quick = "quick(epochs=1,batch=8,crop=1,cutout=2,rate=0.0125,decay=0.002,smoothing=0.1,average=0.995,decay_all=False,bf16=True)"
    without = train(make_busy(), data, quick, run=tmp_path / "b", input_shape=SHAPE)
    with_trivial = quick.replace("bf16=True", "bf16=True,augment=trivial")
    same = train(make_busy(), data, with_trivial, run=tmp_path / "c", input_shape=SHAPE)
    assert states_equal(get_weights(same), get_weights(trivial))
    assert not states_equal(get_weights(without), get_weights(trivial))
