"""From a folder of images to an exported model that predicts without this package.

The images are from Fashion-MNIST, with more than twenty broken, unusual and misnamed files added.
"""

import json
import re
from pathlib import Path

import pytest
import torch

from tests.data.pictures import (
    encode_jpeg,
    is_read_correctly,
    make_pixels,
    write_bad_files,
    write_fashion,
    write_odd_images,
)
from tests.exports.networks import run_without_untrained
from untrained.data import TEST, load_data
from untrained.data.pictures.listing import list_folder
from untrained.types import Task

IMAGES_PER_CLASS = 12  # without the added files
CLASSES = [f"class {k}" for k in range(10)]
OUTSIDE_LINK = "class 7/linked.png"  # links to an image outside the folder
SEARCH = "search --space ./mine.py:mynet --proxy params --data folder:fashion --data-root root --budget 2 --workers 1"
PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.fixture
def fashion(project: Path) -> dict[str, str]:
    """Write the folder `fashion`; returns the expected problem of each broken file."""
    root = project / "fashion"
    write_fashion(root, IMAGES_PER_CLASS)
    bad = write_bad_files(root / "class 3")
    del bad["whole.png"]  # the duplicate is reported for the twin that is read second
    write_odd_images(root / "class 7")
    (root / "class 1" / "large.jpg").write_bytes(encode_jpeg(make_pixels(60, side=300)))
    return {f"class 3/{name}": reason for name, reason in bad.items()}


def test_every_file_is_read_correctly_or_listed_with_a_reason(fashion, project, run_cli):
    code, out, _ = run_cli("data", "card", "folder:fashion", "--data-root", "root", "--json")
    card = json.loads(out)
    problems = dict(card["problems"])
    assert code == 0
    for name, reason in fashion.items():
        assert problems.pop(name).startswith(reason), name
    assert problems.pop(OUTSIDE_LINK) == "not used: a link out of the folder, which is not followed"
    assert {why.partition(": ")[0].partition(" as ")[0] for why in problems.values()} == {
        "used, but it is the same picture",
        "not read again",
    }
    assert {name.partition("/")[2] for name in problems} & {"whole.png", "twin.png"}
    assert (card["smallest"], card["median"], card["largest"]) == ([28, 28], [28, 28], [300, 300])
    assert card["input_size"] == 32

    expected = write_odd_images(project / "again" / "photos" / "cats")
    del expected["linked.png"]
    unused = {name for name, why in card["problems"] if not why.startswith("used")}
    source = load_data("folder:fashion", Task("any", (3, 32, 32), 10), "root")
    names = [
        entry.name for entry in list_folder(project / "fashion").files if entry.name not in unused
    ]
    images = torch.cat([part.images for part in source.parts.values()]).numpy()
    labels = torch.cat([part.labels for part in source.parts.values()]).tolist()
    assert [source.classes[label] for label in labels] == [name.partition("/")[0] for name in names]
    images_by_name = dict(zip(names, images, strict=True))
    for name, pixels in expected.items():
        assert is_read_correctly(name, images_by_name[f"class 7/{name}"], pixels), name
    assert len(expected) + len(fashion) >= 20
    # Four of the bad files are used, and the large image is added.
    assert sum(card["parts"].values()) == len(names) == 10 * IMAGES_PER_CLASS + len(expected) + 5


def test_one_command_makes_a_model_from_the_folder(fashion, project, run_cli):
    """The accuracy of predict.py on the test part equals the accuracy of the training."""
    command = (
        *SEARCH.split(),
        "--confirm",
        "1",
        "--recipe",
        "quick(epochs=2)",
        "--export",
        "model",
        "--run",
        "run",
    )
    code, out, err = run_cli(*command)
    assert code == 0, err
    assert "pictures in 10 classes" in err
    assert f"exported: {project / 'model'}" in out
    stages = re.findall(
        r"^(reading pictures|scoring|contest|training|exporting)(?:: (?:epoch )?\d| to model$)",
        err,
        re.MULTILINE,
    )
    # A stage that takes long has several lines.
    names = list(dict.fromkeys(stages))
    assert names == ["reading pictures", "scoring", "contest", "training", "exporting"]
    facts = json.loads((project / "run" / "train.json").read_text())
    contest = json.loads((project / "run" / "contest.json").read_text())
    assert facts["key"]["arch"] == contest["winner"]
    summary = json.loads(run_cli("report", "run", "--json")[1])
    assert summary["best"] == summary["contest"]["winner"] == contest["winner"]
    page = (project / "run" / "report.html").read_text()
    pictures = 10 * IMAGES_PER_CLASS + 11 + 5
    assert f"<h1>fashion: 10 classes, {pictures:,} pictures</h1>" in page
    assert "--export model --recipe &#x27;quick(epochs=2)&#x27;" in page.replace("<wbr>", "")
    assert (summary["trained"]["accuracy"], summary["weights"]) == (
        facts["accuracy"],
        "run/model.pt",
    )
    assert facts["classes"] == CLASSES
    assert sum(facts["samples"].values()) == 10 * IMAGES_PER_CLASS + 11 + 5
    assert facts["curve"][1]["loss"] < facts["curve"][0]["loss"]
    assert {"model.py", "model.safetensors", "model.onnx", "predict.py"} <= {
        f.name for f in (project / "model").iterdir()
    }
    assert json.loads((project / "model" / "config.json").read_text())["classes"] == CLASSES

    done = run_without_untrained(PREDICT, project, str(project / "model" / "predict.py"), "fashion")
    # Some files are broken: they are listed, and all others are predicted.
    assert done.returncode == 1
    assert "bomb.png: cannot be read" in done.stderr
    predictions = dict(
        line.removeprefix("fashion/").split("\t") for line in done.stdout.splitlines()
    )
    test_entries = [
        entry
        for entry in list_folder(project / "fashion").files
        if entry.part == TEST and entry.name in predictions
    ]
    assert len(test_entries) == facts["samples"]["test"]
    correct = sum(predictions[entry.name].startswith(f"{entry.label} ") for entry in test_entries)
    assert correct / len(test_entries) == pytest.approx(facts["accuracy"])
    for name in ("cut.jpg", "bomb.png", "float.tiff", "zero.png"):
        assert f"class 3/{name}: cannot be read" in done.stderr
