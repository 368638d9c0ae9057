"""The card of somebody's pictures: what there is, every problem file by its name and reason, and what is proposed."""

from dataclasses import asdict

import pytest

from tests.data.pictures import pixels, save, write_bad, write_good, write_odd
from tests.data.tiny import RGB
from untrained.data import TEST, TRAIN, VAL, load_data
from untrained.data.pictures.card import PictureCard, propose_batch_size, propose_input_size


def card_of(photos, like=RGB) -> PictureCard:
    source = load_data(f"folder:{photos}", like, photos.parent / "root")
    return source.card()


def test_the_card_counts_what_can_be_used(tmp_path):
    photos = tmp_path / "photos"
    write_good(photos, {"cats": 40, "dogs": 20})
    save(photos / "cats" / "tall.png", pixels(50, side=96)[:, :64])
    save(photos / "cats" / "grey.png", pixels(51, side=64)[..., 0])
    (photos / "dogs" / "broken.png").write_bytes(b"")
    card = card_of(photos)
    assert card.classes == {"cats": 42, "dogs": 20}
    assert sum(card.parts.values()) == 62
    listed = {TRAIN: 30 + 15, VAL: 6 + 3, TEST: 6 + 3}  # of 42 and 21 files 15 %
    assert sorted(listed[part] - card.parts[part] for part in listed) == [0, 0, 1]
    assert (card.smallest, card.middle, card.largest) == ((32, 32), (32, 32), (64, 96))
    assert (card.modes, card.changes) == ({"RGB": 61, "L": 1}, {"grey": 1})
    assert card.problems == (("dogs/broken.png", "zero bytes"),)
    told = "\n".join(card.lines())
    for part in (
        "62 pictures in 2 classes",
        "cats 42, dogs 20; 2.1 times as many",
        "32x32 to 64x96",
        "RGB 61, L 1",
    ):
        assert part in told
    assert f'proposed: --recipe "quick(batch={card.batch})" to train' in told


def test_many_classes_are_told_by_the_largest_and_the_smallest(tmp_path):
    write_good(tmp_path / "photos", {f"k{n}": n for n in range(1, 15)})
    (line,) = [line for line in card_of(tmp_path / "photos").lines() if line.startswith("classes")]
    assert (
        line == "classes: from k1 1 to k14 14; 14 times as many in the largest as in the smallest"
    )


@pytest.mark.parametrize(
    ("side", "size"),
    [
        (8, 32),
        (28, 32),
        (39, 32),
        (40, 48),
        (60, 64),
        (100, 96),
        (200, 192),
        (375, 224),
        (4000, 224),
    ],
)
def test_the_proposed_size_is_the_nearest_usual_one(side, size):
    assert propose_input_size(side) == size


@pytest.mark.parametrize(
    ("pictures", "size", "batch"),
    [
        (100, 32, 8),  # at least 8, whatever the steps
        (3199, 32, 32),  # 50 steps of 63.98: the next power of two below
        (3200, 32, 64),
        (10**6, 32, 256),  # at most 256
        (10**6, 128, 256),  # 2**22 pixels
        (10**6, 224, 64),  # 83.6 pictures have as many
    ],
)
def test_the_proposed_batch_gives_enough_steps_and_not_too_many_pixels(pictures, size, batch):
    assert propose_batch_size(pictures, size) == batch


def test_every_problem_file_is_named_with_its_reason(tmp_path):
    photos = tmp_path / "photos"
    write_good(photos, {"cats": 10, "dogs": 10})
    expected = write_bad(photos / "dogs")
    odd = write_odd(photos / "cats")
    del expected["whole.png"]
    card = card_of(photos)
    said = dict(card.problems)
    for name, reason in expected.items():
        assert said.pop(f"dogs/{name}").startswith(reason), name
    assert said.pop("cats/deep/loop") == "not read again: a link to a folder that was read before"
    twins = {("dogs/whole.png", "dogs/twin.png"), ("cats/palette_clear.png", "cats/frames.gif")}
    for one, other in twins:
        name = one if one in said else other
        assert (
            said.pop(name) == f"used, but it is the same picture as {other if name == one else one}"
        )
    assert (
        said.pop("cats/linked.png") == "not used: a link out of the folder, which is not followed"
    )
    assert not said
    assert sum(card.parts.values()) == 20 + len(odd) - 1 + 4
    assert card.changes["transparency laid over white"] == 3
    assert asdict(card)["problems"] == card.problems
