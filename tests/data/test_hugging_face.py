"""Images of the Hugging Face hub, with a small stand-in for the package `datasets`."""

import sys
from io import BytesIO
from types import ModuleType

import numpy as np
import pytest
from PIL import Image as Picture

from tests.data.pictures import make_pixels
from tests.data.tiny import RGB
from untrained.data import TEST, TRAIN, VAL, load_data
from untrained.errors import UsageError


class Image:
    """A feature of images; the product recognises it by the name of its class."""

    def __init__(self, decode=True):
        self.decode = decode


class ClassLabel:
    names = ("cat", "dog")


class Table:
    """A split with `rows` rows; without `labels` image k has the label k modulo 2."""

    def __init__(self, seed, rows, labels=None, **features):
        self.features = features or {"id": object(), "photo": Image(), "label": ClassLabel()}
        self.labels = labels or [k % 2 for k in range(rows)]
        self.seed = seed
        self._fingerprint = f"print{seed}"

    def __getitem__(self, key):
        if key == "label":
            return self.labels
        # With `decode` the package would open image files of any kind by itself.
        assert not self.features["photo"].decode
        file = BytesIO()
        Picture.fromarray(make_pixels(self.seed, key)).save(file, "PNG")
        return {"photo": {"bytes": file.getvalue(), "path": None}, "label": self.labels[key]}

    def cast_column(self, name, feature):
        cast = Table(self.seed, len(self.labels), self.labels, **self.features | {name: feature})
        cast._fingerprint = "another"
        return cast


@pytest.fixture
def hub(monkeypatch) -> dict[str, dict[str, Table]]:
    """Data sets by name, which `datasets.load_dataset` returns."""
    tables: dict[str, dict[str, Table]] = {}
    module = ModuleType("datasets")
    module.load_dataset = tables.__getitem__
    monkeypatch.setitem(sys.modules, "datasets", module)
    return tables


def test_splits_become_parts_with_their_images(hub, tmp_path):
    hub["me/pets"] = {
        "train": Table(1, 20),
        "validation": Table(2, 6),
        "test": Table(3, 4, [0, 1, -1, None]),
    }
    source = load_data("hf:me/pets", RGB, tmp_path)
    assert (source.task.dataset, source.task.num_classes, source.classes) == (
        "hf:me/pets",
        2,
        ("cat", "dog"),
    )
    assert {name: len(part) for name, part in source.parts.items()} == {TRAIN: 20, VAL: 6, TEST: 2}
    assert np.array_equal(source.parts[TEST].images[1].numpy(), make_pixels(3, 1))
    assert source.parts[TEST].labels.tolist() == [0, 1]
    assert dict(source.card().problems) == {
        f"test/{k}": "not used: it has no label" for k in (2, 3)
    }
    hub["me/pets"]["train"] = Table(9, 20)  # the publisher replaces the data
    images = load_data("hf:me/pets", RGB, tmp_path).parts[TRAIN].images.numpy()
    assert any(np.array_equal(image, make_pixels(9, 0)) for image in images)


def test_a_split_with_an_unknown_name_is_listed_as_a_problem(hub, tmp_path):
    hub["pets"] = {"train": Table(1, 40), "unlabelled": Table(2, 6)}
    source = load_data("hf:pets", RGB, tmp_path)
    assert {name: len(part) for name, part in source.parts.items()} == {TRAIN: 30, VAL: 6, TEST: 4}
    assert dict(source.card().problems).keys() == {"unlabelled"}


def test_wrong_requests_are_refused(hub, tmp_path, monkeypatch):
    hub["text"] = {"train": Table(1, 4, text=object(), label=ClassLabel())}
    for name, message in {
        "hf": "name the data set: hf:NAME",
        "hf:none": "hf:none cannot be loaded: 'none'",
        "hf:text": "has the columns text, label, none of which has the type Image",
    }.items():
        with pytest.raises(UsageError, match=message):
            load_data(name, RGB, tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"needs the package datasets: pip install datasets"):
        load_data("hf:pets", RGB, tmp_path)
