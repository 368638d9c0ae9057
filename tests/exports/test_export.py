"""An exported folder is complete, describes itself correctly, and works without `untrained`."""

import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from tests.exports.networks import (
    ReadsValues,
    ResNet,
    TokenNetwork,
    run_onnx_snippet,
    run_without_untrained,
)
from untrained.data import load_data
from untrained.errors import UsageError
from untrained.reports.confirmation_result import Confirmation, DesignResult
from untrained.reports.group_comparison import TrainedGroup
from untrained.seeds import derive_seed
from untrained.spaces import load_space, space
from untrained.types import Task
from untrained.workflows.export import ExportResult, check_export, export
from untrained.workflows.search import search
from untrained.workflows.train import train

# The package exports a function of the same name, so the module is looked up by name.
export_module = sys.modules["untrained.workflows.export"]
SPACE = "nasbench201(channels=4,cells=1)"
ARCH = "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|skip_connect~0|avg_pool_3x3~1|none~2|"
# Its weights have the same names and shapes.
OTHER = "|nor_conv_3x3~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+|skip_connect~0|skip_connect~1|none~2|"
FILES = {
    "model.py",
    "model.safetensors",
    "model.onnx",
    "config.json",
    "predict.py",
    "README.md",
    "manifest.json",
}
PREDICT = "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Export an architecture of a space for digits."""
    return export(
        ARCH, tmp_path_factory.mktemp("out") / "exported", space=SPACE, data="digits"
    ).folder


@pytest.fixture
def no_onnx(monkeypatch) -> None:
    """Skip ONNX, which takes seconds, in tests of something else."""

    def refuse(*_, **__):
        raise RuntimeError("\nnot today\nnor tomorrow")

    monkeypatch.setattr(export_module, "write_onnx", refuse)


@space(task=Task("noise", (3, 8, 8), 10))
def one_layer(choose: Any, task: Task, kernel: int = 3) -> nn.Module:
    """A space that exists only in Python."""
    choose("bias", (False, True))
    layer = nn.Conv2d(3, 10, kernel)
    return nn.Sequential(layer, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def build_original(arch_text: str = ARCH, seed: int = 0) -> nn.Module:
    """Build a network with the weights of its scores."""
    space = load_space(SPACE)
    arch = space.parse(arch_text)
    torch.manual_seed(derive_seed("weights", SPACE, arch, seed))
    return space.build(arch, load_data("digits", space.task).task).eval()


def run_predict(folder: Path, *arguments: str, code: int = 0) -> dict[str, list[str]]:
    """Return what predict.py prints per sample, without `untrained` and in another folder."""
    done = run_without_untrained(PREDICT, folder.parent, str(folder / "predict.py"), *arguments)
    assert done.returncode == code, done.stderr
    return {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines()}


# -------------------------------------------------------------------------------- contents of the folder


def test_module_in_channels_last_order_is_exported(tmp_path, no_onnx):
    """A GPU trains in this memory order, in which sums are rounded differently."""
    module = build_original().to(memory_format=torch.channels_last)
    result = export(module, tmp_path / "out", data="digits", input_shape=(3, 32, 32))
    assert "model.py" not in result.missing
    # The module of the user is unchanged.
    assert module.stem[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_folder_is_complete_and_says_that_the_weights_are_untrained(folder):
    assert {path.name for path in folder.iterdir()} == FILES
    assert list(folder.parent.iterdir()) == [folder]
    readme = (folder / "README.md").read_text()
    assert readme.startswith(
        "**Untrained: the weights in this folder are randomly initialised.**\n"
    )
    assert ARCH in readme
    assert "Unknown: the network is not trained." in readme
    assert re.search(
        r"`model.onnx` takes [\d.]+ ms for 1 sample on the CPU of the machine that exported it "
        r"\(\d threads?, tenth percentile of 30",
        readme,
    )


def test_config_has_what_a_program_needs(folder):
    config = json.loads((folder / "config.json").read_text())
    network = build_original()
    train = load_data("digits", load_space(SPACE).task).parts["train"]
    assert config["input_shape"] == [3, 32, 32]
    assert config["classes"] == [str(digit) for digit in range(10)]
    assert config["mean"] == pytest.approx(train.mean.flatten().tolist())
    assert config["std"] == pytest.approx(train.std.flatten().tolist())
    assert config["arch"] == ARCH
    assert config["space"] == SPACE
    assert config["trained"] is False
    assert config["accuracy"] is None
    assert config["params"] == sum(p.numel() for p in network.parameters())
    assert 0 <= config["onnx"]["disagreement"] <= 1e-4
    assert config["latency"]["seconds"] > 0
    assert {"torch", "python", "untrained"} <= set(config["versions"])


@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_predictions_without_untrained_equal_those_of_the_network(folder, tmp_path, runtime):
    """For grey, coloured, transparent and rotated images."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    see_through = np.dstack([pixels, rng.integers(0, 2, (32, 32), dtype=np.uint8) * 255])
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was rotated
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
    predictions = run_predict(folder, str(tmp_path), "--top", "2", "--runtime", runtime)
    assert set(predictions) == {str(tmp_path / name) for name in expected}
    part = load_data("digits", load_space(SPACE).task).parts["train"]
    for name, picture in expected.items():
        with torch.no_grad():
            probabilities = build_original()(
                part.normalise(torch.from_numpy(picture.astype(np.uint8).copy())[None])
            ).softmax(1)[0]
        best = probabilities.argsort(descending=True)[:2].tolist()
        words = [entry.split(" ") for entry in predictions[str(tmp_path / name)]]
        assert [(word, float(value)) for word, value in words] == [
            (str(place), pytest.approx(float(probabilities[place]), abs=1e-4)) for place in best
        ]


def test_the_onnx_snippet_in_the_readme_predicts_as_the_program_does(folder, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(picture).save(tmp_path / "picture.png")
    predictions = run_predict(folder, str(tmp_path / "picture.png"))
    expected_class, expected_probability = predictions[str(tmp_path / "picture.png")][0].split()
    predicted_class, probability = run_onnx_snippet(folder, picture)
    assert predicted_class == expected_class
    assert float(probability) == pytest.approx(float(expected_probability), abs=1e-4)


def test_the_onnx_snippet_reads_grey_pictures_and_a_single_output(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(96, 1))
    result = export(network, tmp_path / "out", input_shape=(1, 12, 8), num_classes=1)
    picture = np.random.default_rng(0).integers(0, 256, (12, 8, 3), dtype=np.uint8)
    grey = torch.from_numpy(picture / 255).mean(2).float()[None, None]
    with torch.no_grad():
        yes = float(network(grey).sigmoid())
    predicted_class, probability = run_onnx_snippet(result.folder, picture)
    assert predicted_class == ("yes" if yes > 0.5 else "no")
    assert float(probability) == pytest.approx(max(yes, 1 - yes), abs=1e-4)


def test_images_are_scaled_and_cropped_around_the_centre(folder, tmp_path):
    wide = np.zeros((64, 128, 3), np.uint8)
    wide[:, 24:104] = 200  # wider than the crop
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(np.full((32, 32, 3), 200, np.uint8)).save(tmp_path / "plain.png")
    predictions = run_predict(folder, str(tmp_path / "wide.png"), str(tmp_path / "plain.png"))
    assert predictions[str(tmp_path / "wide.png")] == predictions[str(tmp_path / "plain.png")]


def test_broken_image_is_reported_and_skipped(folder, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    Image.new("L", (8, 8)).save(tmp_path / "fine.png")
    done = run_without_untrained(PREDICT, tmp_path, str(folder / "predict.py"), str(tmp_path))
    # A script that calls the program notices the missing prediction.
    assert done.returncode == 1
    assert "broken.png: cannot be read" in done.stderr
    assert "fine.png" in done.stdout
    done = run_without_untrained(
        PREDICT, tmp_path, str(folder / "predict.py"), str(tmp_path / "broken.png")
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_rows_of_numbers_are_predicted(tmp_path):
    """A single output x means a probability of yes of 1 / (1 + exp(-x))."""
    network = nn.Sequential(nn.Linear(3, 1))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, -2.0, 0.5]]))
        network[0].bias.fill_(0.25)
    result = export(network, tmp_path / "table", input_shape=(3,), num_classes=1)
    assert result.missing == {}
    readme = (result.folder / "README.md").read_text()
    # A module may be trained, so it is not called untrained.
    assert not readme.startswith("**Untrained")
    assert "image" not in readme
    assert "picture" not in readme
    (tmp_path / "rows.csv").write_text("a,b,c\n1,1,1\n2,-1,0\n1,2\n")
    # The last row has too few columns, so the program says that something is missing.
    predictions = run_predict(result.folder, str(tmp_path / "rows.csv"), code=1)
    yes = {2: 1 / (1 + math.exp(0.25)), 3: 1 / (1 + math.exp(-4.25))}
    assert predictions == {
        f"{tmp_path / 'rows.csv'}:2": [f"no {1 - yes[2]:.4f}"],
        f"{tmp_path / 'rows.csv'}:3": [f"yes {yes[3]:.4f}"],
    }


def test_onnx_takes_any_batch_size_if_the_network_reads_it(tmp_path):
    import onnxruntime

    torch.manual_seed(0)
    network = TokenNetwork().eval()
    result = export(network, tmp_path / "out", input_shape=(3,), num_classes=2)
    assert result.missing == {}
    session = onnxruntime.InferenceSession(str(result.folder / "model.onnx"))
    for samples in (1, 3, 8):
        x = torch.randn(samples, 3)
        with torch.no_grad():
            expected = network(x).numpy()
        assert np.abs(session.run(None, {"input": x.numpy()})[0] - expected).max() < 1e-4


# ------------------------------------------------------------------------------ origin of the network


def test_run_folder_exports_its_winner_with_score_and_limits(tmp_path, no_onnx):
    run = tmp_path / "run"
    searched = search(
        SPACE, "params", budget=4, run=run, workers=1, limits={"params": "1M"}, seed=5
    )
    result = export(run, tmp_path / "out")
    best = searched.ranking.standings[0]
    assert (result.config["arch"], result.config["score"]["value"]) == (str(best.arch), best.score)
    assert result.config["data"] == "digits"
    readme = (result.folder / "README.md").read_text()
    assert f"params {best.score:.6g}" in readme
    assert "max_params 1M: this network has" in readme
    assert "untrained search" in readme
    # The weights are those that the search scored.
    expected = build_original(str(best.arch), seed=5).state_dict()
    saved = load_file(result.folder / "model.safetensors")
    assert torch.equal(saved["stem.0.weight"], expected["stem.0.weight"])


def write_hand_designed_winner(folder: Path, error: str) -> None:
    """Search on a table of numbers, and write that the network `linear` won.

    Args:
        folder: Folder for the table and the run.
        error: Why the training of the best network of the search failed; empty if it did not.
    """
    rows = np.random.default_rng(0).normal(size=(40, 3)).round(3).tolist()
    lines = [",".join(map(str, row)) for row in rows]
    table = folder / "numbers.csv"
    table.write_text("\n".join(["a,b,y", *lines]))
    searched = search(
        "mlp",
        "params",
        budget=1,
        data=f"csv:{table}?label=y",
        data_root=folder,
        run=folder / "run",
        workers=1,
        confirm=0,
    )
    arch = str(searched.best)
    found = DesignResult("found", val_loss=None if error else 0.7, error=error)
    Confirmation(
        best_arch=arch,
        best_arch_result=50.0,
        selected_by=("params",),
        groups=(TrainedGroup("params", "", (arch,), (50.0,)),),
        contrasts=(),
        epochs=1,
        samples=32,
        data=searched.run.config.data,
        seconds=1.0,
        entries=(found, DesignResult("linear", val_loss=0.49)),
        search_key=searched.run.search_key,
        winning_design="linear",
        task="regression",
        label_std=1.0,
    ).save(folder / "run")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("", "data, 0.7 instead of the 0.8367 of the best network that the search found.\n"),
        (
            "the training diverged",
            "data, 0.7; the best network that the search found was not trained on all rows.\n",
        ),
    ],
)
def test_readme_says_how_a_hand_designed_network_won(tmp_path, no_onnx, error, text):
    """The RMSE is the square root of the loss."""
    write_hand_designed_winner(tmp_path, error)
    result = export(tmp_path / "run", tmp_path / "out", data_root=tmp_path)
    assert result.config["arch"] == "linear"
    assert text in (result.folder / "README.md").read_text()


def write_training(folder: Path, **facts) -> nn.Module:
    """Write the files of a training and return its network."""
    network = build_original()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.5)
    folder.mkdir(exist_ok=True)
    torch.save(network.state_dict(), folder / "model.pt")
    content = {
        "key": {"what": ARCH, "space": SPACE, "arch": ARCH, "data": "folder:./photos"},
        "task": {
            "dataset": "folder",
            "input_shape": [3, 32, 32],
            "num_classes": 10,
            "loss": "cross_entropy",
            "vocabularies": [],
        },
        "classes": [f"kind {place}" for place in range(10)],
        "normalisation": {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]},
        "accuracy": 0.98765,
        "samples": {"train": 700, "val": 150, "test": 150},
        "command": "untrained train it",
    }
    (folder / "train.json").write_text(json.dumps(content | facts))
    return network


def test_training_provides_weights_classes_and_accuracy_without_data(tmp_path, no_onnx):
    network = write_training(tmp_path / "run")
    result = export(tmp_path / "run", tmp_path / "out")
    config = result.config
    assert config["trained"] is True
    assert config["accuracy"] == 0.98765
    assert config["classes"][3] == "kind 3"
    assert (config["mean"], config["std"]) == ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    saved = load_file(result.folder / "model.safetensors")
    assert all(torch.equal(saved[name], tensor) for name, tensor in network.state_dict().items())
    readme = (result.folder / "README.md").read_text()
    assert readme.startswith("# NASBench201: 98.8 % on the test part of folder:./photos\n")
    assert "150 samples" in readme
    assert "`untrained train it`" in readme


def test_names_in_the_readme_are_not_html(tmp_path, no_onnx):
    write_training(tmp_path / "run")
    weights = tmp_path / "<script>alert(1)<!-- <img src=x> a < b" / "other.pt"
    weights.parent.mkdir(parents=True)
    torch.save(build_original().state_dict(), weights)
    result = export(tmp_path / "run", tmp_path / "out", weights=weights)
    readme = (result.folder / "README.md").read_text()
    assert "&lt;script>alert(1)&lt;!-- &lt;img src=x> a < b" in readme
    assert not re.search("<[A-Za-z/!?]", readme)


def test_other_weights_have_no_accuracy(tmp_path, no_onnx):
    write_training(tmp_path / "run")
    other = build_original().state_dict()
    torch.save(other, tmp_path / "other.pt")
    result = export(tmp_path / "run", tmp_path / "out", weights=tmp_path / "other.pt")
    assert (result.config["accuracy"], result.config["trained"]) == (None, True)
    assert (
        f"Unknown: the weights come from {tmp_path / 'other.pt'}"
        in (result.folder / "README.md").read_text()
    )


def test_other_architecture_does_not_get_the_accuracy_of_a_training(tmp_path, no_onnx):
    network = write_training(tmp_path / "run")
    assert build_original(OTHER).state_dict().keys() == network.state_dict().keys()
    weights = tmp_path / "run" / "model.pt"
    same = export(ARCH, tmp_path / "same", space=SPACE, weights=weights)
    assert same.config["accuracy"] == 0.98765
    other = export(OTHER, tmp_path / "other", space=SPACE, weights=weights)
    assert (other.config["accuracy"], other.config["trained"]) == (None, True)
    readme = (other.folder / "README.md").read_text()
    assert f"Unknown: the weights come from {weights}, without a test result." in readme
    assert "untrained train it" not in readme


def test_training_in_a_space_that_is_an_object_is_exported(tmp_path, no_onnx):
    """The option of the space belongs to the trained network."""
    trained_space = one_layer.with_options(kernel=1)
    arch = trained_space.sample(seed=0)
    done = train(arch, "digits", "quick(epochs=1)", space=trained_space, run=tmp_path / "run")
    result = export(tmp_path / "run", tmp_path / "out", space=one_layer)
    assert (result.config["space"], result.config["accuracy"]) == (
        "one_layer(kernel=1)",
        done.accuracy,
    )


def test_search_in_a_space_that_is_an_object_exports_its_winner(tmp_path, no_onnx):
    result = search(
        one_layer,
        "params",
        budget=2,
        data="digits",
        recipe="quick(epochs=1)",
        export=tmp_path / "out",
        run=tmp_path / "run",
        workers=1,
    )
    assert result.training is not None
    assert result.export_result is not None
    assert result.export_result.config["arch"] == str(result.best)
    assert result.export_result.config["accuracy"] == result.training.accuracy


def test_module_gets_the_facts_of_the_training_beside_its_weights(tmp_path, no_onnx):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 10))
    done = train(
        network, "digits", "quick(epochs=1,batch=1024)", input_shape=(3, 8, 8), run=tmp_path / "run"
    )
    assert done.command == ""  # a module cannot be named on the command line
    with pytest.raises(
        UsageError,
        match=r"run was trained from a module, which exists only in Python: untrained.export\(model",
    ):
        export(tmp_path / "run", tmp_path / "out")
    result = export(network, tmp_path / "out", weights=tmp_path / "run" / "model.pt")
    assert (result.config["accuracy"], result.config["data"]) == (done.accuracy, "digits")
    assert result.config["mean"] == pytest.approx(done.normalisation["mean"])


def test_damaged_training_is_refused(tmp_path):
    write_training(tmp_path / "run", task={"dataset": "x"})
    with pytest.raises(UsageError, match=r"train.json cannot be read"):
        export(tmp_path / "run", tmp_path / "out")


# --------------------------------------------------------------------------------------- wrong requests


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_weights_that_could_run_code_are_refused_and_run_nothing(tmp_path):
    torch.save({"weight": Trap(tmp_path / "sprung")}, tmp_path / "evil.pt")
    with pytest.raises(
        UsageError, match="is refused: it is damaged, or contains objects that could run code"
    ):
        export(ARCH, tmp_path / "out", space=SPACE, weights=tmp_path / "evil.pt")
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no file"),
        (b"nothing", "is refused"),
        (
            b"user,price\n1,2.5\n",
            "is refused: it is damaged, or contains objects that could run code",
        ),
        (["a list"], "does not contain a state dict"),
        (
            {"stem.0.weight": torch.zeros(2)},
            r"belongs to another network: missing weights: stem\.1\.weight \(\d+ in total\)",
        ),
    ],
)
def test_wrong_weights_are_refused_in_one_line(tmp_path, content, why):
    file = tmp_path / "weights.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        torch.save(content, file)
    with pytest.raises(UsageError, match=why) as refusal:
        export(ARCH, tmp_path / "out", space=SPACE, weights=file)
    assert "\n" not in str(refusal.value)


def test_weights_with_other_shapes_or_names_are_refused(tmp_path):
    state = build_original().state_dict()
    for change, why in (
        ({"stem.0.weight": torch.zeros(2)}, "weights of another shape: stem.0.weight"),
        ({"x": torch.zeros(1)}, "unexpected weights: x"),
    ):
        torch.save(state | change, tmp_path / "weights.pt")
        with pytest.raises(UsageError, match=re.escape(why)):
            export(ARCH, tmp_path / "out", space=SPACE, weights=tmp_path / "weights.pt")
    (tmp_path / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="is not a safetensors file"):
        export(ARCH, tmp_path / "out", space=SPACE, weights=tmp_path / "weights.safetensors")


def test_folder_that_is_not_an_export_is_unchanged(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("three years")
    (tmp_path / "mine" / "config.json").write_text('{"made_by": "me"}')
    (tmp_path / "file").write_text("a file")
    for name, why in (
        ("mine", "is not an earlier export: choose another folder"),
        ("file", "is a file"),
    ):
        with pytest.raises(UsageError, match=why):
            export(ARCH, tmp_path / name, space=SPACE)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "three years"
    with pytest.raises(UsageError, match="is not a writable folder"):
        check_export(tmp_path / "file" / "out")
    with pytest.raises(UsageError, match="is the root of the file system; choose another"):
        check_export(Path("/"))


def test_check_refuses_to_replace_the_run_folder(tmp_path):
    out = tmp_path / "new" / "out"
    for run in (out, out / "run"):
        with pytest.raises(UsageError, match="would replace the run folder"):
            check_export(out, run)
    assert check_export(out, tmp_path / "new") == out
    assert not out.parent.exists()


def test_earlier_export_is_replaced_unless_the_new_one_fails(folder, tmp_path, no_onnx):
    out = tmp_path / "out"
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("__pycache__"))
    (out / "stale.txt").write_text("mine")
    with pytest.raises(
        UsageError,
        match=r"ReadsValues.*reads the values of tensors.*ONNX failed too: not today",
    ):
        export(ReadsValues(), out, input_shape=(3, 8, 8))
    assert {path.name for path in out.iterdir()} == FILES | {"stale.txt"}
    result = export(ResNet(), out, input_shape=(3, 8, 8))
    assert {path.name for path in out.iterdir()} == FILES - {"model.onnx"} | {"stale.txt"}
    assert result.missing == {"model.onnx": "not today"}
    assert "`model.onnx`: not written: not today" in (out / "README.md").read_text()
    assert list(tmp_path.iterdir()) == [out]


def test_onnx_with_other_outputs_is_not_exported(tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "measure_disagreement", lambda *_: 2e-4)
    result = export(nn.Sequential(nn.Linear(3, 2)), tmp_path / "out", input_shape=(3,))
    assert result.missing == {
        "model.onnx": "its outputs differ from torch by 0.0002, more than 0.0001"
    }
    assert not (result.folder / "model.onnx").exists()


def test_onnx_without_finite_outputs_is_not_exported(tmp_path, monkeypatch):
    disagreements = iter([0.0, math.nan])
    monkeypatch.setattr(export_module, "measure_disagreement", lambda *_: next(disagreements))
    result = export(nn.Sequential(nn.Linear(3, 2)), tmp_path / "out", input_shape=(3,))
    assert result.missing == {"model.onnx": "its outputs are not finite"}


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime", "safetensors"])
def test_missing_package_is_named_with_the_command_to_install_it(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UsageError,
        match=f"{package} is not installed: pip install onnx onnxscript onnxruntime safetensors",
    ):
        export(ARCH, tmp_path / "out", space=SPACE)
    assert not (tmp_path / "out").exists()


def test_network_that_cannot_run_or_has_other_outputs_is_refused(tmp_path):
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(
        UsageError, match=r"fails on inputs of shape \(3, 8, 8\): mat1 and mat2 shapes"
    ):
        export(nn.Linear(5, 2), tmp_path / "out", input_shape=(3, 8, 8), num_classes=2)
    with pytest.raises(UsageError, match=r"Pair returns a tuple for two samples; to export it"):
        export(Pair(), tmp_path / "out", input_shape=(3,), num_classes=3)
    with pytest.raises(
        UsageError,
        match=r"returns the shape \(2, 2\) for two samples; to export it, it must return the shape \(2, 7\)",
    ):
        export(nn.Linear(3, 2), tmp_path / "out", input_shape=(3,), num_classes=7)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="contains neither a search nor a training"):
        export(tmp_path / "empty", tmp_path / "out")


def test_the_result_of_an_export_is_printed_in_one_line():
    result = ExportResult(Path("model"), {"classes": ["cat"] * 1000}, {})
    assert repr(result) == "ExportResult('model')"
    result = ExportResult(Path("model"), {}, {"model.onnx": "unsupported"})
    assert repr(result) == "ExportResult('model', missing=['model.onnx'])"
