"""Parts: every class in its shares, nothing twice, nothing lost; what is looked at comes from the first part."""

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
MIXED = torch.randperm(163, generator=torch.Generator().manual_seed(0))
LABELS = torch.cat([torch.full((n,), label) for label, n in SIZES.items()])[MIXED]
TINY = Task("tiny", (1, 2, 2), 4)


def numbered(labels: torch.Tensor = LABELS) -> torch.Tensor:
    """Images (N, 2, 2, 1), each of which says its own number by its first two pixels."""
    images = torch.zeros(len(labels), 2, 2, 1, dtype=torch.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = (
        torch.arange(len(labels)) // 200,
        torch.arange(len(labels)) % 200,
    )
    return images


def numbers(images: torch.Tensor) -> list[int]:
    high, low = images[:, 0, :, 0].float().round().long().T
    return (200 * high + low).tolist()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), {TRAIN: 0.7, VAL: 0.15, TEST: 0.15}),
        ((TEST,), {TRAIN: 0.9, VAL: 0.1}),
        ((VAL,), {TRAIN: 0.85, TEST: 0.15}),
        ((VAL, TEST), {TRAIN: 1.0}),
    ],
)
def test_only_the_parts_that_nobody_keeps_apart_are_cut(given, expected):
    assert choose_shares(given) == pytest.approx(expected)


def test_rows_are_shared_out_in_turn_and_the_rest_is_the_first_part():
    assert split_rows(list(range(10)), {"a": 0.5, "b": 0.3, "c": 0.2}) == {
        "a": [5, 6, 7, 8, 9],
        "b": [0, 1, 2],
        "c": [3, 4],
    }


def test_every_class_is_in_every_part_in_its_share():
    places = split_by_class(LABELS, choose_shares(()), TINY)
    counts = {name: Counter(LABELS[rows].tolist()) for name, rows in places.items()}
    assert counts[VAL] == counts[TEST] == {0: 15, 1: 6, 2: 3}  # of three samples none
    assert counts[TRAIN] == {0: 70, 1: 28, 2: 14, 3: 3}


def test_parts_have_nothing_in_common_and_lack_nothing():
    places = split_by_class(LABELS, choose_shares(()), TINY)
    assert torch.cat([*places.values()]).sort().values.tolist() == list(range(163))
    assert all(rows.tolist() == sorted(rows.tolist()) for rows in places.values())


def test_the_seed_and_the_data_set_decide_and_other_classes_do_not():
    one, same = (split_by_class(LABELS, choose_shares(()), TINY) for _ in range(2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one[VAL], split_by_class(LABELS, choose_shares(()), TINY, seed=1)[VAL])
    assert not torch.equal(
        one[VAL], split_by_class(LABELS, choose_shares(()), Task("other", (1, 2, 2), 4))[VAL]
    )
    more = split_by_class(torch.cat([LABELS, torch.tensor([2])]), choose_shares(()), TINY)
    assert [row for row in more[VAL].tolist() if LABELS[row] != 2] == [
        r for r in one[VAL].tolist() if LABELS[r] != 2
    ]


def test_samples_to_look_at_come_from_the_part_to_learn_from_while_it_has_any():
    images = numbered()
    source = make_image_source(images, LABELS, TINY, (torch.zeros(1), torch.ones(1) / 255))
    train, val, test = (numbers(source.parts[name].images) for name in (TRAIN, VAL, TEST))
    drawn = [numbers(source.batch(n, seed=3).inputs.permute(0, 2, 3, 1)) for n in (50, 115, 163)]
    assert set(drawn[0]) < set(train)
    assert sorted(drawn[1]) == sorted(train)
    assert (set(drawn[2][115:139]), set(drawn[2][139:])) == (set(val), set(test))


def test_what_the_publisher_keeps_apart_is_left_as_it_is_and_read_late():
    asked = []

    def judged():
        asked.append(1)
        return torch.full((5, 4, 4, 1), 9, dtype=torch.uint8), torch.arange(
            5, dtype=torch.uint8
        ) % 4

    source = make_image_source(numbered(), LABELS, TINY, published_parts={TEST: judged})
    source.batch(4)
    assert not asked
    assert {name: len(part) for name, part in source.parts.items()} == {
        TRAIN: 147,
        VAL: 16,
        TEST: 5,
    }  # 10 + 4 + 2 + 0
    assert source.parts[TEST].images.shape == (5, 2, 2, 1)  # in the task's size
    assert source.parts[TEST].labels.tolist() == [0, 1, 2, 3, 0]
    assert asked == [1]


def test_statistics_are_of_all_images_however_they_are_sorted():
    images = torch.cat(
        [torch.full((4000, 2, 2, 1), value, dtype=torch.uint8) for value in (0, 255)]
    )
    part = make_image_source(images, torch.arange(8000) // 4000, TINY).parts[TRAIN]
    assert float(part.mean) == pytest.approx(0.5, abs=1e-3)
    assert float(part.std) == pytest.approx(0.5, abs=1e-3)


def test_a_pass_shows_every_sample_once_and_normal():
    images, labels = torch.randint(256, (7, 3, 5, 2), dtype=torch.uint8), torch.arange(7)
    part = ImagePart(images, labels, torch.tensor([0.5, 0.25]), torch.tensor([0.1, 0.2]))
    plain, shuffled, again = (
        list(part.batches(3, order))
        for order in (None, *(torch.Generator().manual_seed(1) for _ in "ab"))
    )
    assert [len(batch) for batch in plain] == [3, 3, 1]
    assert torch.cat([batch.targets for batch in plain]).tolist() == list(range(7))
    assert plain[0].inputs.shape == (3, 2, 3, 5)
    expected = (float(images[4, 2, 3, 1]) / 255 - 0.25) / 0.2
    assert float(plain[1].inputs[1, 1, 2, 3]) == pytest.approx(expected, rel=1e-5)
    order = torch.cat([batch.targets for batch in shuffled])
    assert sorted(order.tolist()) == list(range(7)) != order.tolist()
    assert order.tolist() == torch.cat([batch.targets for batch in again]).tolist()
    torch.testing.assert_close(
        torch.cat([b.inputs for b in shuffled]), part.normalise(images)[order]
    )


def test_what_is_made_up_has_no_parts():
    with pytest.raises(
        UsageError, match="noise has nothing to learn from; take data with labels, such as digits"
    ):
        _ = load_data("noise", RGB).parts
    assert {name: len(part) for name, part in load_data("digits", RGB).parts.items()}.keys() == {
        TRAIN,
        VAL,
        TEST,
    }
