"""Exports of networks that were trained on arrays: predict.py reads numpy files as in training."""

import json
import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import untrained as ut
from untrained.errors import UsageError

GENERATOR = np.random.default_rng(0)
SERIES = GENERATOR.normal([[[5.0], [-300.0]]], [[[1.0], [40.0]]], (60, 2, 9))
CLASSES = np.arange(60) % 3
NUMBERS = 2.5 * SERIES[:, 1].mean(1) + 4


@pytest.fixture
def in_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_network(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(28, outputs))


def standardise(series: np.ndarray, config: dict) -> torch.Tensor:
    mean = np.array(config["mean"])[None, :, None]
    std = np.array(config["std"])[None, :, None]
    return torch.from_numpy((series - mean) / std).float()


def predict(*arguments: str) -> SimpleNamespace:
    """Run the exported program in this process, because importing torch again is slow."""
    program = runpy.run_path("exported/predict.py", run_name="predict")
    output = StringIO()
    errors = StringIO()
    path = list(sys.path)
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        patch.setattr(sys, "argv", ["predict.py", *arguments])
        code = program["main"]()
    # The program has imported the model.py beside it.
    sys.path[:] = path
    sys.modules.pop("model", None)
    return SimpleNamespace(returncode=code, stdout=output.getvalue(), stderr=errors.getvalue())


def read_config() -> dict:
    return json.loads(Path("exported/config.json").read_text())


def test_the_exported_program_classifies_as_the_network_does(in_folder):
    training = ut.train(make_network(3), (SERIES, CLASSES), epochs=2, run="run")
    result = ut.export(training, "exported")
    assert result.missing == {}
    config = read_config()
    assert config["input_shape"] == [2, 9]
    # The statistics are those of the training part, close to those of all samples.
    assert config["mean"] == pytest.approx([5, -300], abs=5)
    np.save("new.npy", SERIES.astype(np.float32))
    np.savez("new.npz", x=SERIES, y=CLASSES)
    logits = training.model(standardise(SERIES.astype(np.float32), config)).detach()
    probabilities = logits.softmax(1)
    for name in ("new.npy", "new.npz"):
        for runtime in ("torch", "onnx"):
            done = predict(name, "--runtime", runtime)
            assert done.returncode == 0, done.stderr
            lines = done.stdout.splitlines()
            assert len(lines) == 60
            for row, line in enumerate(lines):
                sample, prediction = line.split("\t")
                label, probability = prediction.split()
                assert sample == f"{name}:{row}"
                assert int(label) == int(logits[row].argmax())
                assert float(probability) == pytest.approx(
                    float(probabilities[row].max()), abs=2e-4
                )


def test_the_exported_program_prints_numbers_in_the_unit_of_the_target(in_folder):
    training = ut.train(make_network(1), (SERIES, NUMBERS), epochs=2, run="run")
    ut.export(training, "exported")
    config = read_config()
    np.save("new.npy", SERIES)
    outputs = training.model(standardise(SERIES, config)).detach().double()[:, 0]
    expected = outputs * config["target"]["std"] + config["target"]["mean"]
    done = predict("new.npy")
    assert done.returncode == 0
    numbers = [float(line.split()[-1]) for line in done.stdout.splitlines()]
    assert numbers == pytest.approx(expected.tolist(), rel=1e-4)
    readme = Path("exported/README.md").read_text()
    assert f"RMSE {training.rmse:.4g}" in readme
    assert "Predicts a number from arrays of the shape 2 x 9" in readme
    assert "python predict.py samples.npy" in readme


def test_the_readme_warns_about_a_network_that_is_worse_than_the_mean(in_folder):
    training = ut.train(make_network(1), (SERIES, NUMBERS), epochs=1, run="run")
    mean_rmse = training.constant["rmse"]
    warning = f"worse than that of always predicting the mean ({mean_rmse:.4g}): do not use"
    for factor, is_worse in {2: True, 0.5: False}.items():
        out = f"exported-{factor}"
        ut.export(replace(training, rmse=factor * mean_rmse).save(), out)
        readme = " ".join(Path(out, "README.md").read_text().split())
        assert (warning in readme) == is_worse


def test_files_that_cannot_be_read_are_reported(in_folder):
    training = ut.train(make_network(3), (SERIES, CLASSES), epochs=1, run="run")
    ut.export(training, "exported")
    np.save("good.npy", SERIES[:2])
    np.save("shape.npy", SERIES[:, :, :4])
    np.save("nan.npy", np.where(np.arange(60)[:, None, None] == 1, np.nan, SERIES))
    np.save("objects.npy", np.array([{}], dtype=object))
    np.savez("names.npz", a=SERIES, b=SERIES)
    Path("photo.png").write_bytes(b"x")
    messages = {
        "shape.npy": "expected numbers (samples, 2, 9)",
        "nan.npy": "sample 1 has a NaN",
        "objects.npy": "allow_pickle=False",
        "names.npz": "call the inputs x",
        "photo.png": "this network reads arrays",
        "missing.npy": "No such file",
    }
    done = predict("good.npy", *messages)
    assert done.returncode == 1
    # The good file, and the first sample of the file with a NaN in the second one.
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [
        "good.npy:0",
        "good.npy:1",
        "nan.npy:0",
    ]
    errors = done.stderr.splitlines()
    assert len(errors) == len(messages)
    for error, (name, message) in zip(errors, messages.items(), strict=True):
        assert error.startswith(f"{name}: cannot be read")
        assert message in error
    # Of a folder, all numpy files are read.
    assert predict("good.npy").returncode == 0
    Path("folder").mkdir()
    Path("good.npy").rename("folder/good.npy")
    assert len(predict("folder").stdout.splitlines()) == 2


def test_vectors_are_also_read_from_csv(in_folder):
    vectors = SERIES[:, 1]
    network = nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 3))
    training = ut.train(network, (vectors, CLASSES), epochs=1, run="run")
    ut.export(training, "exported")
    np.save("new.npy", vectors)
    np.savetxt("new.csv", vectors, delimiter=",")
    from_array = [line.split("\t")[1] for line in predict("new.npy").stdout.splitlines()]
    from_text = [line.split("\t")[1] for line in predict("new.csv").stdout.splitlines()]
    assert len(from_array) == 60
    assert from_text == from_array


def test_the_folder_of_a_training_from_a_space_is_exported(in_folder):
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 9
    space = "nasbench201(channels=2,cells=1)"
    arch = ut.load_space(space).sample(seed=1)
    ut.train(arch, (images, torch.arange(40) % 2), space=space, epochs=1, run="run")
    result = ut.export("run", "exported")
    assert result.config["reads_arrays"]
    assert result.config["mean"] == pytest.approx([float(images.mean())], abs=0.2)
    np.save("new.npy", images.numpy())
    assert len(predict("new.npy").stdout.splitlines()) == 40


def test_a_module_is_exported_with_the_normalisation_of_its_data(in_folder):
    network = make_network(3)
    result = ut.export(network, "exported", data=(SERIES, CLASSES))
    training = ut.train(network, (SERIES, CLASSES), epochs=1, run="run")
    assert result.config["mean"] == training.normalisation["mean"]
    assert result.config["classes"] == ["0", "1", "2"]


def test_an_export_of_a_run_on_objects_needs_the_objects(in_folder):
    space = "nasbench201(channels=2,cells=1)"
    images = torch.randn(30, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    data = (images, torch.arange(30) % 3)
    ut.search(space, "params", budget=2, data=data, run="run", workers=1)
    with pytest.raises(UsageError, match=r"give them again.*data=\(inputs, targets\)"):
        ut.export("run", "exported", space=space)
    result = ut.export("run", "exported", space=space, data=data)
    assert result.config["classes"] == ["0", "1", "2"]
