"""From a folder of Fashion-MNIST, with more than twenty broken, odd and misnamed files in it, to a model that predicts
where nothing of ours is."""

import json
import re
from pathlib import Path

import pytest
import torch

from tests.data.pictures import alike, jpeg, pixels, write_bad, write_fashion, write_odd
from tests.exports.networks import elsewhere
from untrained.data import TEST, load
from untrained.data._listing import of_folder
from untrained.types import Task

EACH = 12  # good pictures of a class
CLASSES = [f"class {k}" for k in range(10)]
LINK_OUT = "class 7/linked.png"  # leads to a picture outside of the folder
SEARCH = "search --space ./mine.py:mynet --proxy params --data folder:fashion --data-root root --budget 2 --workers 1"
PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.fixture
def fashion(project: Path) -> dict[str, str]:
    """The folder `fashion`; by name, what the card must say of a file that is not as it should be."""
    root = project / "fashion"
    write_fashion(root, EACH)
    bad = write_bad(root / "class 3")
    del bad["whole.png"]  # or its twin, whichever comes first
    write_odd(root / "class 7")
    (root / "class 1" / "large.jpg").write_bytes(jpeg(pixels(60, side=300)))
    return {f"class 3/{name}": reason for name, reason in bad.items()}


def test_every_file_is_named_with_its_reason_or_read_rightly(fashion, project, untrained_):
    code, out, _ = untrained_("data", "card", "folder:fashion", "--data-root", "root", "--json")
    card = json.loads(out)
    said = dict(card["problems"])
    assert code == 0
    for name, reason in fashion.items():
        assert said.pop(name).startswith(reason), name
    assert said.pop(LINK_OUT) == "not used: a link out of the folder, which is not followed"
    assert {why.partition(": ")[0].partition(" as ")[0] for why in said.values()} == {
        "used, but it is the same picture",
        "not read again",
    }
    assert {name.partition("/")[2] for name in said} & {"whole.png", "twin.png"}
    assert (card["smallest"], card["middle"], card["largest"]) == ([28, 28], [28, 28], [300, 300])
    assert card["input_size"] == 32

    expected = write_odd(project / "again" / "photos" / "cats")
    del expected["linked.png"]
    lost = {name for name, why in card["problems"] if not why.startswith("used")}
    source = load("folder:fashion", Task("any", (3, 32, 32), 10), "root")
    names = [entry.name for entry in of_folder(project / "fashion").entries if entry.name not in lost]
    images = torch.cat([part.images for part in source.parts.values()]).numpy()
    labels = torch.cat([part.labels for part in source.parts.values()]).tolist()
    assert [source.classes[label] for label in labels] == [name.partition("/")[0] for name in names]
    seen = {name.partition("/")[2]: image for name, image in zip(names, images, strict=True) if name[:7] == "class 7"}
    assert all(alike(name, seen[name], pixels_) for name, pixels_ in expected.items())
    assert len(expected) + len(fashion) >= 20
    assert (
        sum(card["parts"].values()) == len(names) == 10 * EACH + len(expected) + 5
    )  # 4 that are used, and a large one


def test_one_command_goes_from_the_folder_to_a_model_that_predicts(fashion, project, untrained_):
    """What predict.py says of the pictures of the test part is right as often as the training said."""
    asked = (*SEARCH.split(), "--confirm", "1", "--recipe", "quick(epochs=2)", "--export", "model", "--run", "run")
    code, out, err = untrained_(*asked)
    assert code == 0, err
    assert "pictures in 10 classes" in err
    assert f"exported: {project / 'model'}" in out
    begun = re.findall(r"^(reading pictures|scoring|confirming|training|exporting)(?:: | to model$)", err, re.MULTILINE)
    assert begun == ["reading pictures", "scoring", "confirming", "training", "exporting"]
    facts, confirmed = (json.loads((project / "run" / f"{name}.json").read_text()) for name in ("train", "confirmed"))
    assert facts["asked"]["arch"] == confirmed["winner"]
    told = json.loads(untrained_("report", "run", "--json")[1])
    assert (told["best"], told["confirmed"]) == (confirmed["winner"], confirmed)
    assert (told["trained"]["accuracy"], told["weights"]) == (facts["accuracy"], "run/model.pt")
    assert facts["classes"] == CLASSES
    assert sum(facts["samples"].values()) == 10 * EACH + 11 + 5
    assert facts["curve"][1]["loss"] < facts["curve"][0]["loss"]
    assert {"model.py", "model.safetensors", "model.onnx", "predict.py"} <= {
        f.name for f in (project / "model").iterdir()
    }
    assert json.loads((project / "model" / "config.json").read_text())["classes"] == CLASSES

    done = elsewhere(PREDICT, project, str(project / "model" / "predict.py"), "fashion")
    assert done.returncode == 0, done.stderr
    said = dict(line.removeprefix("fashion/").split("\t") for line in done.stdout.splitlines())
    judged = [entry for entry in of_folder(project / "fashion").entries if entry.part == TEST and entry.name in said]
    assert len(judged) == facts["samples"]["test"]
    right = sum(said[entry.name].startswith(f"{entry.kind} ") for entry in judged)
    assert right / len(judged) == pytest.approx(facts["accuracy"])
    for name in ("cut.jpg", "bomb.png", "float.tiff", "zero.png"):
        assert f"class 3/{name}: cannot be read" in done.stderr
