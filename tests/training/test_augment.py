"""Augmentations, compared with loops over samples and with what must stay unchanged."""

import torch
from torch import Tensor

from untrained.training.augment import (
    cut_out_squares,
    draw_mixup,
    flip_images,
    mix_samples,
    shift_images,
)


def make_images(n: int = 40, height: int = 5, width: int = 7) -> Tensor:
    """Make random images without black pixels."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (n, height, width, 2), generator=generator, dtype=torch.uint8)


def make_generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def list_windows(image: Tensor, most: int) -> list[Tensor]:
    """List the image shifted by every distance, row by row."""
    height, width, channels = image.shape
    large = torch.zeros(height + 2 * most, width + 2 * most, channels, dtype=image.dtype)
    large[most : most + height, most : most + width] = image
    sides = range(2 * most + 1)
    return [large[top : top + height, left : left + width] for top in sides for left in sides]


def test_every_sample_is_shifted_differently_and_padded_with_black():
    before = make_images()
    after = shift_images(before, 2, make_generator())
    assert after.dtype == torch.uint8
    assert len(set(find_shifts(before, after))) > 10
    all_shifts = set()
    for seed in range(12):
        shifted = shift_images(before, 2, make_generator(seed))
        all_shifts.update(find_shifts(before, shifted))
    assert all_shifts == set(range(25))
    assert torch.equal(shift_images(before, 2, make_generator()), after)
    assert not torch.equal(shift_images(before, 2, make_generator(2)), after)


def find_shifts(before: Tensor, after: Tensor) -> list[int]:
    """Return for each image the number of its shift by up to two pixels."""
    shifts = []
    for image, moved in zip(before, after, strict=True):
        is_match = [torch.equal(window, moved) for window in list_windows(image, 2)]
        shifts.append(is_match.index(True))
    return shifts


def test_a_flip_mirrors_about_half_of_the_images():
    before = make_images(400)
    after = flip_images(before, make_generator())
    is_flipped = [torch.equal(a, b.flip(1)) for a, b in zip(after, before, strict=True)]
    is_unchanged = [torch.equal(a, b) for a, b in zip(after, before, strict=True)]
    assert all(a != b for a, b in zip(is_flipped, is_unchanged, strict=True))
    assert 150 < sum(is_flipped) < 250  # five standard deviations of 10


def test_cutout_blanks_one_square_around_any_pixel():
    before = make_images(300).permute(0, 3, 1, 2).float()
    after = cut_out_squares(before, 3, make_generator())
    shapes = set()
    for old, new in zip(before, after, strict=True):
        blank = (new == 0).all(0)
        rows = blank.any(1).nonzero()[:, 0]
        columns = blank.any(0).nonzero()[:, 0]
        assert blank.sum() == len(rows) * len(columns)
        assert rows[-1] - rows[0] + 1 == len(rows) <= 3
        assert columns[-1] - columns[0] + 1 == len(columns) <= 3
        assert torch.equal(new[:, ~blank], old[:, ~blank])
        shapes.add((int(rows[0]), int(columns[0]), len(rows), len(columns)))
    # Every pixel was a centre; at the edges two rows or columns are left
    assert len(shapes) == 5 * 7
    assert {(3, 3), (2, 2), (2, 3), (3, 2)} == {shape[2:] for shape in shapes}


def test_mixup_weights_pixels_and_targets_equally():
    pixels = torch.randn(3, 2, 4, 4)
    targets = torch.eye(3)
    shares = torch.tensor([1.0, 0.25, 0.6])
    partners = torch.tensor([1, 2, 2])
    inputs, soft = mix_samples(pixels, targets, shares, partners)
    assert torch.equal(inputs[0], pixels[0])
    torch.testing.assert_close(inputs[1], 0.25 * pixels[1] + 0.75 * pixels[2])
    torch.testing.assert_close(inputs[2], pixels[2])
    torch.testing.assert_close(soft, torch.tensor([[1.0, 0, 0], [0, 0.25, 0.75], [0, 0, 1.0]]))


def test_mixup_shares_are_beta_distributed_and_partners_are_a_permutation():
    """Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)): 0.1389 for a = 0.4."""
    shares, partners = draw_mixup(4000, 0.4, 3, 17)
    assert abs(float(shares.mean()) - 0.5) < 0.03
    assert abs(float(shares.var()) - 1 / (4 * 1.8)) < 0.01
    assert torch.equal(partners.sort().values, torch.arange(4000))
    again = draw_mixup(4000, 0.4, 3, 17)
    other = draw_mixup(4000, 0.4, 3, 18)
    assert torch.equal(again[0], shares)
    assert not torch.equal(other[0], shares)
