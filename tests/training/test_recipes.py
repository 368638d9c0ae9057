"""Recipes: valid options, and the formula of the learning rate."""

from math import cos, pi

import pytest

from untrained.errors import UsageError
from untrained.training.recipes import RECIPES, load_recipe


def test_a_recipe_takes_options_in_brackets_and_its_label_can_be_parsed():
    recipe = load_recipe("quick(epochs=5,rate=0.25,flip=True,warm_up=1)")
    assert (recipe.epochs, recipe.rate, recipe.flip, recipe.warm_up) == (5, 0.25, True, 1.0)
    assert recipe.batch == RECIPES["quick"].batch
    assert load_recipe(recipe.label) == recipe
    assert load_recipe("quick").label == "quick"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quik", "did you mean quick"),
        ("quick(epoch=5)", "no option of the recipe quick is called 'epoch'; did you mean epochs"),
        ("quick(name=x)", "no option"),
        ("quick(epochs=2.5)", "epochs=2.5 in the recipe quick: expected a whole number"),
        ("quick(rate=fast)", "expected a number, such as"),
        ("quick(flip=1)", "expected True or False"),
        ("quick(epochs=True)", "expected a whole number"),
        ("quick(epochs=0)", "at least 1 epoch"),
        ("quick(rate=0)", "a rate above 0"),
        ("quick(cutout=-1)", "cutout=-1 in a recipe must be finite and at least 0"),
        ("quick(smoothing=1.0)", "at least 0 and below 1"),
        ("quick(average=1)", "at least 0 and below 1"),
        ("quick(optimiser=adam)", "no optimiser is called 'adam'; did you mean adamw"),
        ("quick(schedule=step)", "cosine, linear"),
        ("quick(augment=trivia)", "no augmentation is called 'trivia'; did you mean trivial"),
        ("quick(5)", "name=value"),
    ],
)
def test_wrong_recipes_are_refused_in_one_line(text, message):
    with pytest.raises(UsageError, match=message.replace("(", r"\(")) as caught:
        load_recipe(text)
    assert "\n" not in str(caught.value)


def test_the_rate_rises_linearly_and_falls_by_half_a_cosine():
    """4 epochs of 10 steps: the rate rises to 0.8 in the first epoch and falls to 0.2 in the others.

    A fifth of the way down is step 16; in the middle, step 25, the rate is the mean of both ends.
    """
    recipe = load_recipe("quick(epochs=4,rate=0.8,final_rate=0.2,warm_up=1.0)")
    assert [recipe.rate_at(step, 10) for step in range(10)] == pytest.approx(
        [0.08 * (step + 1) for step in range(10)]
    )
    assert recipe.rate_at(10, 10) == pytest.approx(0.8)
    assert recipe.rate_at(25, 10) == pytest.approx(0.5)
    assert recipe.rate_at(16, 10) == pytest.approx(0.2 + 0.6 * (1 + cos(pi / 5)) / 2)
    assert recipe.rate_at(40, 10) == pytest.approx(0.2)


def test_the_rate_can_fall_linearly_without_a_rise():
    recipe = load_recipe("quick(epochs=2,rate=1.0,warm_up=0.0,schedule=linear)")
    assert [recipe.rate_at(step, 4) for step in range(8)] == pytest.approx(
        [1 - step / 8 for step in range(8)]
    )


def test_published_recipes_have_the_published_values():
    """NASI's appendix B.4, which follows DARTS, and ZenNAS's scripts: a rate of 0.1 per 256 images, batches of 64."""
    darts = RECIPES["darts-cifar"]
    assert (darts.epochs, darts.batch, darts.rate, darts.final_rate, darts.decay) == (
        600,
        96,
        0.025,
        0.0,
        3e-4,
    )
    assert dict(darts.space_options) == {
        "channels": 36,
        "cells": 20,
        "auxiliary": True,
        "drop_path": 0.2,
    }
    assert (darts.auxiliary, darts.cutout, darts.growing_drop_path, darts.nesterov) == (
        0.4,
        16,
        True,
        False,
    )
    imagenet = RECIPES["darts-imagenet"]
    assert (imagenet.epochs, imagenet.batch, imagenet.rate, imagenet.warm_up) == (
        250,
        1024,
        0.5,
        5.0,
    )
    assert (imagenet.schedule, imagenet.decay, imagenet.smoothing) == ("linear", 3e-5, 0.1)
    zen = RECIPES["zen-cifar"]
    assert (zen.epochs, zen.rate, zen.decay, zen.warm_up) == (
        1440,
        0.1 * zen.batch / 256,
        5e-4,
        5.0,
    )
    clicks = RECIPES["ctr"]
    assert (clicks.optimiser, clicks.rate, clicks.clip, clicks.decay) == ("adagrad", 0.12, 5.0, 0.0)
    assert clicks.warm_up == 0.1 * clicks.epochs  # a tenth of all steps
    assert all(
        member.differences
        for name, member in RECIPES.items()
        if name not in ("quick", "photos", "table", "cifar")
    )
