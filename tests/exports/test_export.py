"""The exported folder: whole or not there, true about itself, and of use where nothing of ours is."""

import json
import math
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tests.exports.networks import Looks, ResNet, Token, elsewhere
from untrained.data import load
from untrained.errors import UsageError
from untrained.exports import export, ready
from untrained.rng import seed_for
from untrained.spaces import load_space
from untrained.strategies import search
from untrained.training import train

room = sys.modules["untrained.exports.export"]
SPACE = "nasbench201(channels=4,cells=1)"
ARCH = "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|skip_connect~0|avg_pool_3x3~1|none~2|"
FILES = {"model.py", "model.safetensors", "model.onnx", "config.json", "predict.py", "README.md", "manifest.json"}
PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An architecture of a space, for digits."""
    return export(ARCH, tmp_path_factory.mktemp("out") / "exported", space=SPACE, data="digits").folder


@pytest.fixture
def no_onnx(monkeypatch) -> None:
    """Writing ONNX takes seconds, and most tests are about something else."""

    def refuse(*_, **__):
        raise RuntimeError("\nnot today\nnor tomorrow")

    monkeypatch.setattr(room, "write_onnx", refuse)


def original() -> nn.Module:
    """The network of ARCH with the weights that it is judged with."""
    space = load_space(SPACE)
    arch = space.parse(ARCH)
    torch.manual_seed(seed_for("weights", SPACE, arch, 0))
    return space.build(arch, load("digits", space.task).task).eval()


def predicted(folder: Path, *arguments: str) -> dict[str, list[str]]:
    """What predict.py says of each sample, in a Python without `untrained` and in another folder."""
    done = elsewhere(PREDICT, folder.parent, str(folder / "predict.py"), *arguments)
    assert done.returncode == 0, done.stderr
    return {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines()}


# ---------------------------------------------------------------------------------------------------- what is in it


def test_a_module_whose_channels_lie_last_is_written_as_any_other(tmp_path, no_onnx):
    """A GPU trains in that order of memory, in which sums are rounded otherwise."""
    module = original().to(memory_format=torch.channels_last)
    made = export(module, tmp_path / "out", data="digits", input_shape=(3, 32, 32))
    assert "model.py" not in made.missing
    assert module.stem[0].weight.is_contiguous(memory_format=torch.channels_last)  # the user's own is left alone


def test_the_folder_is_whole_and_says_that_its_weights_are_untrained(folder):
    assert {path.name for path in folder.iterdir()} == FILES
    assert list(folder.parent.iterdir()) == [folder]
    readme = (folder / "README.md").read_text()
    assert readme.startswith("**Untrained: the weights in this folder are as they were drawn at random.**\n")
    assert ARCH in readme
    assert "Not known: it has learned nothing yet." in readme
    assert re.search(
        r"`model.onnx` takes [\d.]+ ms for 1 sample on this machine's CPU \(\d threads?, median of 30", readme
    )


def test_the_config_tells_what_a_program_must_know(folder):
    config, network = json.loads((folder / "config.json").read_text()), original()
    train = load("digits", load_space(SPACE).task).parts["train"]
    assert (config["input_shape"], config["classes"]) == ([3, 32, 32], [str(digit) for digit in range(10)])
    assert config["mean"] == pytest.approx(train.mean.flatten().tolist())
    assert config["std"] == pytest.approx(train.std.flatten().tolist())
    assert (config["arch"], config["space"], config["trained"], config["accuracy"]) == (ARCH, SPACE, False, None)
    assert config["params"] == sum(p.numel() for p in network.parameters())
    assert 0 <= config["onnx"]["disagreement"] <= 1e-4
    assert config["latency"]["seconds"] > 0
    assert {"torch", "python", "untrained"} <= set(config["versions"])


@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_the_folder_predicts_where_nothing_of_ours_is(folder, tmp_path, runtime):
    """Grey, colour, palette, transparent and turned pictures, against the original and torch's own resizing."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    see_through = np.dstack([pixels, rng.integers(0, 2, (32, 32), dtype=np.uint8) * 255])
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera lay on its side
    (tmp_path / "below").mkdir()
    Image.fromarray(pixels).save(tmp_path / "colour.png")
    Image.fromarray(pixels[..., 0]).save(tmp_path / "below" / "grey.PNG")
    Image.fromarray(see_through).save(tmp_path / "clear.png")
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=turned)
    expected = {
        "colour.png": pixels,
        "below/grey.PNG": np.repeat(pixels[..., :1], 3, 2),
        "clear.png": np.where(see_through[..., 3:] > 0, pixels, 255),
        "turned.png": np.rot90(pixels, -1),
    }
    said = predicted(folder, str(tmp_path), "--top", "2", "--runtime", runtime)
    assert set(said) == {str(tmp_path / name) for name in expected}
    part = load("digits", load_space(SPACE).task).parts["train"]
    for name, picture in expected.items():
        with torch.no_grad():
            chances = original()(part.normal(torch.from_numpy(picture.astype(np.uint8).copy())[None])).softmax(1)[0]
        best = chances.argsort(descending=True)[:2].tolist()
        words = [entry.split(" ") for entry in said[str(tmp_path / name)]]
        assert [(word, float(value)) for word, value in words] == [
            (str(place), pytest.approx(float(chances[place]), abs=1e-4)) for place in best
        ]


def test_pictures_are_scaled_and_cut_around_the_centre(folder, tmp_path):
    wide = np.zeros((64, 128, 3), np.uint8)
    wide[:, 24:104] = 200  # more than what is left when the sides are cut
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(np.full((32, 32, 3), 200, np.uint8)).save(tmp_path / "plain.png")
    said = predicted(folder, str(tmp_path / "wide.png"), str(tmp_path / "plain.png"))
    assert said[str(tmp_path / "wide.png")] == said[str(tmp_path / "plain.png")]


def test_a_broken_picture_is_told_and_passed_over(folder, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    Image.new("L", (8, 8)).save(tmp_path / "fine.png")
    done = elsewhere(PREDICT, tmp_path, str(folder / "predict.py"), str(tmp_path))
    assert done.returncode == 0
    assert "broken.png: cannot be read" in done.stderr
    assert "fine.png" in done.stdout
    done = elsewhere(PREDICT, tmp_path, str(folder / "predict.py"), str(tmp_path / "broken.png"))
    assert (done.returncode, done.stdout) == (1, "")


def test_rows_of_a_table(tmp_path):
    """One output is the chance of yes: 1 / (1 + exp(-x))."""
    network = nn.Sequential(nn.Linear(3, 1))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, -2.0, 0.5]]))
        network[0].bias.fill_(0.25)
    made = export(network, tmp_path / "table", input_shape=(3,), num_classes=1)
    assert made.missing == {}
    assert not (made.folder / "README.md").read_text().startswith("**Untrained")  # a module has the weights it has
    (tmp_path / "rows.csv").write_text("a,b,c\n1,1,1\n2,-1,0\n1,2\n")
    said = predicted(made.folder, str(tmp_path / "rows.csv"))
    yes = {2: 1 / (1 + math.exp(0.25)), 3: 1 / (1 + math.exp(-4.25))}
    assert said == {
        f"{tmp_path / 'rows.csv'}:2": [f"no {1 - yes[2]:.4f}"],
        f"{tmp_path / 'rows.csv'}:3": [f"yes {yes[3]:.4f}"],
    }


def test_onnx_takes_any_number_of_samples_where_the_network_counts_them(tmp_path):
    import onnxruntime

    torch.manual_seed(0)
    network = Token().eval()
    made = export(network, tmp_path / "out", input_shape=(3,), num_classes=2)
    assert made.missing == {}
    session = onnxruntime.InferenceSession(str(made.folder / "model.onnx"))
    for samples in (1, 3, 8):
        x = torch.randn(samples, 3)
        with torch.no_grad():
            expected = network(x).numpy()
        assert np.abs(session.run(None, {"input": x.numpy()})[0] - expected).max() < 1e-4


# ------------------------------------------------------------------------------------------------------ where from


def test_a_run_folder_gives_its_best_with_its_score_and_limits(tmp_path, no_onnx):
    run = tmp_path / "run"
    found = search(SPACE, "params", budget=4, run=run, workers=1, max_params="1M")
    made = export(run, tmp_path / "out")
    best = found.ranking.standings[0]
    assert (made.config["arch"], made.config["score"]["value"]) == (str(best.arch), best.score)
    assert made.config["data"] == "digits"
    readme = (made.folder / "README.md").read_text()
    assert f"params {best.score:.6g}" in readme
    assert "max_params 1M: it has" in readme
    assert "untrained search" in readme


def trained(folder: Path, **facts) -> nn.Module:
    """Leave in a folder what a training leaves there."""
    network = original()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.5)
    folder.mkdir(exist_ok=True)
    torch.save(network.state_dict(), folder / "model.pt")
    told = {
        "asked": {"what": ARCH, "space": SPACE, "arch": ARCH, "data": "folder:./photos"},
        "task": {
            "dataset": "folder",
            "input_shape": [3, 32, 32],
            "num_classes": 10,
            "loss": "cross_entropy",
            "vocabularies": [],
        },
        "classes": [f"kind {place}" for place in range(10)],
        "normal": {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]},
        "accuracy": 0.98765,
        "samples": {"train": 700, "val": 150, "test": 150},
        "command": "untrained train it",
    }
    (folder / "train.json").write_text(json.dumps(told | facts))
    return network


def test_a_training_gives_its_weights_classes_and_accuracy_and_needs_no_data(tmp_path, no_onnx):
    network = trained(tmp_path / "run")
    made = export(tmp_path / "run", tmp_path / "out")
    config = made.config
    assert (config["trained"], config["accuracy"], config["classes"][3]) == (True, 0.98765, "kind 3")
    assert (config["mean"], config["std"]) == ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    from safetensors.torch import load_file

    saved = load_file(made.folder / "model.safetensors")
    assert all(torch.equal(saved[name], tensor) for name, tensor in network.state_dict().items())
    readme = (made.folder / "README.md").read_text()
    assert readme.startswith("# NASBench201: 98.77% on the test part of folder:./photos\n")
    assert "150 samples" in readme
    assert "`untrained train it`" in readme


def test_no_name_becomes_a_tag_of_the_readme(tmp_path, no_onnx):
    trained(tmp_path / "run")
    weights = tmp_path / "<script>alert(1)<!-- <img src=x> a < b" / "other.pt"
    weights.parent.mkdir(parents=True)
    torch.save(original().state_dict(), weights)
    made = export(tmp_path / "run", tmp_path / "out", weights=weights)
    readme = (made.folder / "README.md").read_text()
    assert "&lt;script>alert(1)&lt;!-- &lt;img src=x> a < b" in readme
    assert not re.search("<[A-Za-z/!?]", readme)


def test_other_weights_have_no_accuracy(tmp_path, no_onnx):
    trained(tmp_path / "run")
    other = original().state_dict()
    torch.save(other, tmp_path / "other.pt")
    made = export(tmp_path / "run", tmp_path / "out", weights=tmp_path / "other.pt")
    assert (made.config["accuracy"], made.config["trained"]) == (None, True)
    assert f"Not known: the weights come from {tmp_path / 'other.pt'}" in (made.folder / "README.md").read_text()


def test_a_module_takes_what_its_training_says_from_beside_the_weights(tmp_path, no_onnx):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 10))
    done = train(network, "digits", "quick(epochs=1,batch=1024)", input_shape=(3, 8, 8), run=tmp_path / "run")
    assert done.command == ""  # nobody can type a module
    with pytest.raises(
        UsageError, match=r"run was trained from a module, which only Python has: untrained.export\(model"
    ):
        export(tmp_path / "run", tmp_path / "out")
    made = export(network, tmp_path / "out", weights=tmp_path / "run" / "model.pt")
    assert (made.config["accuracy"], made.config["data"]) == (done.accuracy, "digits")
    assert made.config["mean"] == pytest.approx(done.normal["mean"])


def test_a_damaged_training_is_told(tmp_path):
    trained(tmp_path / "run", task={"dataset": "x"})
    with pytest.raises(UsageError, match=r"train.json cannot be read"):
        export(tmp_path / "run", tmp_path / "out")


# ------------------------------------------------------------------------------------------------------ wrong requests


class Trap:
    """A pickle that would make a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_weights_that_could_run_code_are_refused_and_run_nothing(tmp_path):
    torch.save({"weight": Trap(tmp_path / "sprung")}, tmp_path / "evil.pt")
    with pytest.raises(UsageError, match="is refused: it is damaged, or holds more than weights"):
        export(ARCH, tmp_path / "out", space=SPACE, weights=tmp_path / "evil.pt")
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no file"),
        (b"nothing", "is refused"),
        (b"user,price\n1,2.5\n", "is refused: it is damaged, or holds more than weights"),
        (["a list"], "holds no state dict"),
        ({"stem.0.weight": torch.zeros(2)}, r"is of another network: it lacks stem\.1\.weight \(\d+ such weights\)"),
    ],
)
def test_wrong_weights_are_told_in_one_line(tmp_path, content, why):
    file = tmp_path / "weights.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        torch.save(content, file)
    with pytest.raises(UsageError, match=why) as told:
        export(ARCH, tmp_path / "out", space=SPACE, weights=file)
    assert "\n" not in str(told.value)


def test_weights_of_another_shape_or_with_more_names_are_told(tmp_path):
    state = original().state_dict()
    for change, why in (
        ({"stem.0.weight": torch.zeros(2)}, "in another shape stem.0.weight"),
        ({"x": torch.zeros(1)}, "has not, x"),
    ):
        torch.save(state | change, tmp_path / "weights.pt")
        with pytest.raises(UsageError, match=re.escape(why)):
            export(ARCH, tmp_path / "out", space=SPACE, weights=tmp_path / "weights.pt")
    (tmp_path / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="is no safetensors file"):
        export(ARCH, tmp_path / "out", space=SPACE, weights=tmp_path / "weights.safetensors")


def test_a_folder_that_is_no_former_export_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("three years")
    (tmp_path / "mine" / "config.json").write_text('{"made_by": "me"}')
    (tmp_path / "file").write_text("a file")
    for name, why in (("mine", "is no earlier export: choose another folder"), ("file", "is a file")):
        with pytest.raises(UsageError, match=why):
            export(ARCH, tmp_path / name, space=SPACE)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "three years"
    with pytest.raises(UsageError, match="is no folder that can be written to"):
        ready(tmp_path / "file" / "out")


def test_a_folder_is_found_ready_before_the_work_unless_it_would_replace_the_run(tmp_path):
    out = tmp_path / "new" / "out"
    for run in (out, out / "run"):
        with pytest.raises(UsageError, match="would replace the run folder"):
            ready(out, run)
    assert ready(out, tmp_path / "new") == out
    assert not out.parent.exists()


def test_a_former_export_is_replaced_whole_and_kept_where_the_new_one_fails(folder, tmp_path, no_onnx):
    out = tmp_path / "out"
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("__pycache__"))
    (out / "stale.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"Looks.*looks at the values of tensors.*nor can ONNX be written: not today"):
        export(Looks(), out, input_shape=(3, 8, 8))
    assert {path.name for path in out.iterdir()} == FILES | {"stale.txt"}
    made = export(ResNet(), out, input_shape=(3, 8, 8))
    assert {path.name for path in out.iterdir()} == FILES - {"model.onnx"} | {"stale.txt"}
    assert made.missing == {"model.onnx": "not today"}
    assert "`model.onnx`: not written: not today" in (out / "README.md").read_text()
    assert list(tmp_path.iterdir()) == [out]


def test_onnx_that_disagrees_is_not_given_out(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "disagreement", lambda *_: 2e-4)
    made = export(nn.Sequential(nn.Linear(3, 2)), tmp_path / "out", input_shape=(3,))
    assert made.missing == {"model.onnx": "its answers differ from torch's by 0.0002, over 0.0001"}
    assert not (made.folder / "model.onnx").exists()


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime", "safetensors"])
def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UsageError, match=f"{package} is not installed: pip install onnx onnxscript onnxruntime safetensors"
    ):
        export(ARCH, tmp_path / "out", space=SPACE)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_run_or_answers_otherwise_is_told(tmp_path):
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(UsageError, match=r"cannot read \(3, 8, 8\): mat1 and mat2 shapes"):
        export(nn.Linear(5, 2), tmp_path / "out", input_shape=(3, 8, 8), num_classes=2)
    with pytest.raises(UsageError, match=r"Pair answers two samples with tuple; to be exported"):
        export(Pair(), tmp_path / "out", input_shape=(3,), num_classes=3)
    with pytest.raises(
        UsageError, match=r"answers two samples with \(2, 2\); to be exported it must answer with \(2, 7\)"
    ):
        export(nn.Linear(3, 2), tmp_path / "out", input_shape=(3,), num_classes=7)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds neither a search nor a training"):
        export(tmp_path / "empty", tmp_path / "out")
