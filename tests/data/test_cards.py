"""The card of a folder of images: contents, problem files with their reasons, and proposals."""

from dataclasses import asdict

import pytest

from tests.data.pictures import (
    make_pixels,
    save_image,
    write_bad_files,
    write_good_images,
    write_odd_images,
)
from tests.data.tiny import RGB
from untrained.data import TEST, TRAIN, VAL, load_data
from untrained.data.pictures import card as card_module
from untrained.data.pictures.card import PictureCard, propose_batch_size, propose_input_size


def make_card(photos, like=RGB) -> PictureCard:
    source = load_data(f"folder:{photos}", like, photos.parent / "root")
    return source.card()


def test_the_card_counts_what_can_be_used(tmp_path):
    photos = tmp_path / "photos"
    write_good_images(photos, {"cats": 40, "dogs": 20})
    save_image(photos / "cats" / "tall.png", make_pixels(50, side=96)[:, :64])
    save_image(photos / "cats" / "grey.png", make_pixels(51, side=64)[..., 0])
    (photos / "dogs" / "broken.png").write_bytes(b"")
    card = make_card(photos)
    assert card.classes == {"cats": 42, "dogs": 20}
    assert sum(card.parts.values()) == 62
    # Of 42 and 21 files 15 % (6.3 and 3.15) and 10 % (4.2 and 2.1).
    listed = {TRAIN: 32 + 16, VAL: 6 + 3, TEST: 4 + 2}
    assert sorted(listed[part] - card.parts[part] for part in listed) == [0, 0, 1]
    assert (card.smallest, card.median, card.largest) == ((32, 32), (32, 32), (64, 96))
    assert (card.modes, card.changes) == ({"RGB": 61, "L": 1}, {"grey": 1})
    assert card.problems == (("dogs/broken.png", "zero bytes"),)
    text = "\n".join(card.lines())
    for part in (
        "62 pictures in 2 classes",
        "cats 42, dogs 20; the largest has 2.1 times as many as the smallest",
        "32x32 to 64x96",
        "RGB 61, L 1",
    ):
        assert part in text
    assert f"training: --recipe photos takes batches of {card.batch} (" in text


def test_many_classes_are_summarised_by_the_largest_and_the_smallest(tmp_path):
    write_good_images(tmp_path / "photos", {f"k{n}": n for n in range(1, 15)})
    (line,) = [
        line for line in make_card(tmp_path / "photos").lines() if line.startswith("classes")
    ]
    assert line == "classes: from k1 1 to k14 14; the largest has 14 times as many as the smallest"


def test_equal_classes_are_said_to_be_equal(tmp_path):
    write_good_images(tmp_path / "photos", {"cats": 8, "dogs": 8})
    assert (
        "classes: cats 8, dogs 8; all have the same number"
        in make_card(tmp_path / "photos").lines()
    )


def test_the_card_proposes_a_size_at_which_all_pictures_fit_into_memory(tmp_path, monkeypatch):
    photos = tmp_path / "photos"
    for k in range(16):
        save_image(photos / "ab"[k % 2] / f"{k}.png", make_pixels(k, side=96))
    # 16 pictures of 3 x 64 x 64 bytes.
    monkeypatch.setattr(card_module, "_MAX_BYTES", 16 * 3 * 64**2)
    source = load_data(f"folder:{photos}", RGB, tmp_path / "root")
    card = source.card()
    assert card.input_size == source.propose_side() == 64
    assert card.input_size_reason == (
        "the median shorter side is 96 pixels; 16 pictures of 96 pixels would not fit into memory"
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
def test_the_proposed_size_is_the_nearest_common_size(side, size):
    assert propose_input_size(side) == size


@pytest.mark.parametrize(
    ("pictures", "size", "batch"),
    [
        (20, 32, 8),  # at least 8, whatever the steps
        (639, 32, 32),  # 10 steps of 63.9: the next power of two below
        (640, 32, 64),
        (10_000, 32, 64),
        (10_001, 32, 128),
        (10**6, 128, 128),  # 256 images have 2**22 pixels, but the batch is at most 128
        (10**6, 224, 64),  # 83.6 images have 2**22 pixels
        (10**6, 384, 16),  # 28.4 images
    ],
)
def test_the_proposed_batch_gives_enough_steps_and_not_too_many_pixels(pictures, size, batch):
    assert propose_batch_size(pictures, size) == batch


def test_every_problem_file_is_named_with_its_reason(tmp_path):
    photos = tmp_path / "photos"
    write_good_images(photos, {"cats": 10, "dogs": 10})
    expected = write_bad_files(photos / "dogs")
    odd = write_odd_images(photos / "cats")
    del expected["whole.png"]
    card = make_card(photos)
    problems = dict(card.problems)
    for name, reason in expected.items():
        assert problems.pop(f"dogs/{name}").startswith(reason), name
    loop = problems.pop("cats/deep/loop")
    assert loop == "not read again: a link to a folder that was read before"
    twins = {("dogs/whole.png", "dogs/twin.png"), ("cats/palette_clear.png", "cats/frames.gif")}
    for one, other in twins:
        # Which of the two is read first is not determined.
        if one in problems:
            assert problems.pop(one) == f"used, but it is the same picture as {other}"
        else:
            assert problems.pop(other) == f"used, but it is the same picture as {one}"
    link = problems.pop("cats/linked.png")
    assert link == "not used: a link out of the folder, which is not followed"
    assert not problems
    assert sum(card.parts.values()) == 20 + len(odd) - 1 + 4
    assert card.changes["transparency put on white"] == 3
    assert asdict(card)["problems"] == card.problems


def list_warnings(card: PictureCard) -> list[str]:
    return [line for line in card.lines() if line.startswith("warning")]


def test_equal_pictures_with_different_labels_have_a_warning_of_their_own(tmp_path):
    photos = tmp_path / "photos"
    write_good_images(photos, {"cats": 10, "dogs": 10})
    save_image(photos / "cats" / "a.png", make_pixels(70))
    save_image(photos / "cats" / "b.png", make_pixels(70))
    card = make_card(photos)
    # Equal pictures of one class are listed, but contradict nothing.
    assert [reason.partition(" as ")[0] for _, reason in card.problems] == [
        "used, but it is the same picture"
    ]
    assert (card.conflicts, list_warnings(card)) == ((), [])

    save_image(photos / "dogs" / "c.png", make_pixels(70))
    card = make_card(photos)
    labels = {"cats/a.png": "cats", "cats/b.png": "cats", "dogs/c.png": "dogs"}
    # Parts are read in turn, so any of the three may be the first.
    assert len(card.conflicts) in (1, 2)
    assert {labels[first] != labels[second] for first, second in card.conflicts} == {True}
    for first, second in card.conflicts:
        assert dict(card.problems)[second] == (
            f"used, but it is the same picture as {first}, which has the label {labels[first]} "
            f"instead of {labels[second]}"
        )
    first, second = card.conflicts[0]
    (warning,) = list_warnings(card)
    count = {1: "1 picture is", 2: "2 pictures are"}[len(card.conflicts)]
    assert warning == (
        f"warning: {count} the same as another one with a different label, such as {second} and "
        f"{first}; a network cannot learn both: correct one of the labels, or remove the picture"
    )
    # The second card is read from the cache.
    assert make_card(photos) == card


def test_numbers_are_different_labels_if_their_values_differ(tmp_path):
    lines = ["path,label"]
    for number in range(20):
        save_image(tmp_path / f"{number}.png", make_pixels(number))
        lines.append(f"{number}.png,{number + 0.5}")
    save_image(tmp_path / "equal.png", make_pixels(3))
    save_image(tmp_path / "other.png", make_pixels(7))
    # 3.50 is 3.5, and 7.25 is not 7.5.
    lines += ["equal.png,3.50", "other.png,7.25"]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    card = load_data(f"images:{tmp_path / 'labels.csv'}", RGB, tmp_path / "root").card()
    assert [set(names) for names in card.conflicts] == [{"7.png", "other.png"}]
    assert len(card.problems) == 2
    (warning,) = list_warnings(card)
    assert warning.startswith("warning: 1 picture is the same as another one with a different")
