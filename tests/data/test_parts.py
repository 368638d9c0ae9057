"""Parts are stratified, disjoint and complete; scoring samples come from the training part."""

from collections import Counter

import pytest
import torch

from tests.data.tiny import RGB
from untrained.data import TEST, TRAIN, VAL, ImagePart, load_data
from untrained.data.images import make_image_source
from untrained.data.parts import choose_shares, split_by_class, split_rows
from untrained.errors import UsageError
from untrained.types import Task

SIZES = {0: 100, 1: 40, 2: 20, 3: 3}
ORDER = torch.randperm(163, generator=torch.Generator().manual_seed(0))
LABELS = torch.cat([torch.full((n,), label) for label, n in SIZES.items()])[ORDER]
TINY = Task("tiny", (1, 2, 2), 4)


def make_numbered_images(labels: torch.Tensor = LABELS) -> torch.Tensor:
    """Return images (N, 2, 2, 1) that contain their number in the first two pixels."""
    images = torch.zeros(len(labels), 2, 2, 1, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(len(labels)) // 200
    images[:, 0, 1, 0] = torch.arange(len(labels)) % 200
    return images


def read_numbers(images: torch.Tensor) -> list[int]:
    """Return the numbers that images contain."""
    high, low = images[:, 0, :, 0].float().round().long().T
    return (200 * high + low).tolist()


@pytest.mark.parametrize(
    ("existing_parts", "expected"),
    [
        ((), {TRAIN: 0.75, VAL: 0.15, TEST: 0.1}),
        ((TEST,), {TRAIN: 0.9, VAL: 0.1}),
        ((VAL,), {TRAIN: 0.9, TEST: 0.1}),
        ((VAL, TEST), {TRAIN: 1.0}),
    ],
)
def test_only_parts_that_do_not_exist_are_split_off(existing_parts, expected):
    assert choose_shares(existing_parts) == pytest.approx(expected)


def test_later_parts_take_their_rows_in_turn_and_the_first_part_gets_the_rest():
    assert split_rows(list(range(10)), {"a": 0.5, "b": 0.3, "c": 0.2}) == {
        "a": [5, 6, 7, 8, 9],
        "b": [0, 1, 2],
        "c": [3, 4],
    }


@pytest.mark.parametrize(("rows", "counts"), [(3, (3, 0, 0)), (4, (2, 1, 1)), (5, (3, 1, 1))])
def test_a_part_gets_at_least_one_of_four_rows(rows, counts):
    """10 % of four or five rows would be rounded to none."""
    parts = split_rows(list(range(rows)), choose_shares(()))
    assert tuple(len(part) for part in parts.values()) == counts


def test_parts_are_stratified_by_class():
    rows_by_part = split_by_class(LABELS, choose_shares(()), TINY)
    counts = {name: Counter(LABELS[rows].tolist()) for name, rows in rows_by_part.items()}
    assert counts[VAL] == {0: 15, 1: 6, 2: 3}  # 15 % of 3 samples is none
    assert counts[TEST] == {0: 10, 1: 4, 2: 2}
    assert counts[TRAIN] == {0: 75, 1: 30, 2: 15, 3: 3}


def test_parts_are_disjoint_and_complete():
    rows_by_part = split_by_class(LABELS, choose_shares(()), TINY)
    assert torch.cat([*rows_by_part.values()]).sort().values.tolist() == list(range(163))
    assert all(rows.tolist() == sorted(rows.tolist()) for rows in rows_by_part.values())


def test_the_split_of_a_class_depends_on_the_seed_and_the_data_set_and_not_on_other_classes():
    shares = choose_shares(())
    parts = split_by_class(LABELS, shares, TINY)
    same_parts = split_by_class(LABELS, shares, TINY)
    assert all(torch.equal(parts[name], same_parts[name]) for name in parts)
    assert not torch.equal(parts[VAL], split_by_class(LABELS, shares, TINY, seed=1)[VAL])
    other_task = Task("other", (1, 2, 2), 4)
    assert not torch.equal(parts[VAL], split_by_class(LABELS, shares, other_task)[VAL])
    larger_parts = split_by_class(torch.cat([LABELS, torch.tensor([2])]), shares, TINY)
    rows_of_other_classes = [row for row in parts[VAL].tolist() if LABELS[row] != 2]
    assert [row for row in larger_parts[VAL].tolist() if LABELS[row] != 2] == rows_of_other_classes


def test_scoring_samples_come_from_the_training_part_until_it_is_used_up():
    images = make_numbered_images()
    source = make_image_source(images, LABELS, TINY, (torch.zeros(1), torch.ones(1) / 255))
    train, val, test = (read_numbers(source.parts[name].images) for name in (TRAIN, VAL, TEST))
    few, all_training, everything = (
        read_numbers(source.batch(count, seed=3).inputs.permute(0, 2, 3, 1))
        for count in (50, 123, 163)
    )
    assert set(few) < set(train)
    assert sorted(all_training) == sorted(train)
    assert set(everything[123:147]) == set(val)
    assert set(everything[147:]) == set(test)


def test_a_published_part_is_kept_and_read_only_when_it_is_needed():
    reads = []

    def read_test_part():
        reads.append(1)
        images = torch.full((5, 4, 4, 1), 9, dtype=torch.uint8)
        return images, torch.arange(5, dtype=torch.uint8) % 4

    source = make_image_source(
        make_numbered_images(), LABELS, TINY, existing_parts={TEST: read_test_part}
    )
    source.batch(4)
    assert not reads
    # A tenth of each class is 10 + 4 + 2 + 0 images.
    assert {name: len(part) for name, part in source.parts.items()} == {
        TRAIN: 147,
        VAL: 16,
        TEST: 5,
    }
    assert source.parts[TEST].images.shape == (5, 2, 2, 1)  # in the task's size
    assert source.parts[TEST].labels.tolist() == [0, 1, 2, 3, 0]
    assert reads == [1]


def test_statistics_cover_all_images_in_any_order():
    images = torch.cat(
        [torch.full((4000, 2, 2, 1), value, dtype=torch.uint8) for value in (0, 255)]
    )
    part = make_image_source(images, torch.arange(8000) // 4000, TINY).parts[TRAIN]
    assert float(part.mean) == pytest.approx(0.5, abs=1e-3)
    assert float(part.std) == pytest.approx(0.5, abs=1e-3)


def test_batches_contain_every_sample_once_and_normalised():
    images = torch.randint(256, (7, 3, 5, 2), dtype=torch.uint8)
    labels = torch.arange(7)
    part = ImagePart(images, labels, torch.tensor([0.5, 0.25]), torch.tensor([0.1, 0.2]))
    plain = list(part.batches(3))
    shuffled = list(part.batches(3, torch.Generator().manual_seed(1)))
    shuffled_again = list(part.batches(3, torch.Generator().manual_seed(1)))
    assert [len(batch) for batch in plain] == [3, 3, 1]
    assert torch.cat([batch.targets for batch in plain]).tolist() == list(range(7))
    assert plain[0].inputs.shape == (3, 2, 3, 5)
    expected = (float(images[4, 2, 3, 1]) / 255 - 0.25) / 0.2
    assert float(plain[1].inputs[1, 1, 2, 3]) == pytest.approx(expected, rel=1e-5)
    order = torch.cat([batch.targets for batch in shuffled])
    assert sorted(order.tolist()) == list(range(7)) != order.tolist()
    assert order.tolist() == torch.cat([batch.targets for batch in shuffled_again]).tolist()
    torch.testing.assert_close(
        torch.cat([b.inputs for b in shuffled]), part.normalise(images)[order]
    )


def test_noise_has_no_parts_and_digits_have_all():
    with pytest.raises(
        UsageError, match="noise has no parts to train on; use data with labels, such as digits"
    ):
        _ = load_data("noise", RGB).parts
    assert {name: len(part) for name, part in load_data("digits", RGB).parts.items()}.keys() == {
        TRAIN,
        VAL,
        TEST,
    }
