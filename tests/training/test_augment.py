"""Distortions, each against a loop over samples or against what must stay as it was."""

import torch
from torch import Tensor

from untrained.training.augment import (
    cut_out_squares,
    draw_mixup,
    flip_images,
    mix_samples,
    shift_images,
)


def images(n: int = 40, height: int = 5, width: int = 7) -> Tensor:
    """Every pixel another byte than its neighbours, and none of them black."""
    draws = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (n, height, width, 2), generator=draws, dtype=torch.uint8)


def draws(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def windows(image: Tensor, most: int) -> list[Tensor]:
    """The image moved by every distance, one after the other."""
    height, width, channels = image.shape
    large = torch.zeros(height + 2 * most, width + 2 * most, channels, dtype=image.dtype)
    large[most : most + height, most : most + width] = image
    sides = range(2 * most + 1)
    return [large[top : top + height, left : left + width] for top in sides for left in sides]


def test_a_shift_is_a_window_of_the_image_on_black_and_every_sample_has_its_own():
    before = images()
    after = shift_images(before, 2, draws())
    assert after.dtype == torch.uint8
    found = [
        next(k for k, window in enumerate(windows(image, 2)) if torch.equal(window, moved))
        for image, moved in zip(before, after, strict=True)
    ]
    assert len(set(found)) > 10
    assert set(range(25)) == {
        k for seed in range(12) for k in places(before, shift_images(before, 2, draws(seed)))
    }
    assert torch.equal(shift_images(before, 2, draws()), after)
    assert not torch.equal(shift_images(before, 2, draws(2)), after)


def places(before: Tensor, after: Tensor) -> list[int]:
    return [
        next(k for k, window in enumerate(windows(image, 2)) if torch.equal(window, moved))
        for image, moved in zip(before, after, strict=True)
    ]


def test_a_flip_exchanges_left_and_right_of_about_half():
    before = images(400)
    after = flip_images(before, draws())
    turned = [torch.equal(a, b.flip(1)) for a, b in zip(after, before, strict=True)]
    kept = [torch.equal(a, b) for a, b in zip(after, before, strict=True)]
    assert all(a != b for a, b in zip(turned, kept, strict=True))
    assert 150 < sum(turned) < 250  # five standard deviations of 10


def test_cutout_blanks_one_square_around_any_place_and_spares_the_rest():
    before = images(300).permute(0, 3, 1, 2).float()
    after = cut_out_squares(before, 3, draws())
    shapes = set()
    for old, new in zip(before, after, strict=True):
        blank = (new == 0).all(0)
        rows, columns = blank.any(1).nonzero()[:, 0], blank.any(0).nonzero()[:, 0]
        assert blank.sum() == len(rows) * len(columns)
        assert rows[-1] - rows[0] + 1 == len(rows) <= 3
        assert columns[-1] - columns[0] + 1 == len(columns) <= 3
        assert torch.equal(new[:, ~blank], old[:, ~blank])
        shapes.add((int(rows[0]), int(columns[0]), len(rows), len(columns)))
    assert (
        len(shapes) == 5 * 7
    )  # every pixel was a centre; at the edges two rows or columns are left
    assert {(3, 3), (2, 2), (2, 3), (3, 2)} == {shape[2:] for shape in shapes}


def test_mixup_weighs_pixels_and_targets_alike():
    pixels, targets = torch.randn(3, 2, 4, 4), torch.eye(3)
    shares, partners = torch.tensor([1.0, 0.25, 0.6]), torch.tensor([1, 2, 2])
    inputs, soft = mix_samples(pixels, targets, shares, partners)
    assert torch.equal(inputs[0], pixels[0])
    torch.testing.assert_close(inputs[1], 0.25 * pixels[1] + 0.75 * pixels[2])
    torch.testing.assert_close(inputs[2], pixels[2])
    torch.testing.assert_close(soft, torch.tensor([[1.0, 0, 0], [0, 0.25, 0.75], [0, 0, 1.0]]))


def test_shares_are_beta_and_partners_a_permutation_that_the_seed_decides():
    """Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)): 0.1389 for a = 0.4."""
    shares, partners = draw_mixup(4000, 0.4, 3, 17)
    assert abs(float(shares.mean()) - 0.5) < 0.03
    assert abs(float(shares.var()) - 1 / (4 * 1.8)) < 0.01
    assert torch.equal(partners.sort().values, torch.arange(4000))
    again, other = draw_mixup(4000, 0.4, 3, 17), draw_mixup(4000, 0.4, 3, 18)
    assert torch.equal(again[0], shares)
    assert not torch.equal(other[0], shares)
