"""The exported predict.py reads images as training does and behaves like other programs."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from tests.data.pictures import is_read_correctly, write_odd_images
from untrained.data.pictures.decode import decode_image, open_image_file
from untrained.exports import predict_template

PLAIN = {"input_shape": [3, 32, 32], "mean": [0.0] * 3, "std": [1.0] * 3}


def test_images_of_all_kinds_are_read_correctly(tmp_path):
    expected = write_odd_images(tmp_path / "photos" / "cats")
    for name, pixels in expected.items():
        image = predict_template.read_image(tmp_path / "photos" / "cats" / name, PLAIN)
        assert is_read_correctly(name, (255 * image).round().transpose(1, 2, 0), pixels), name


@pytest.mark.parametrize("suffix", [".jp2", ".ico", ".pgm", ".JPE", ".jfif", ".tif"])
def test_all_formats_of_training_are_found_in_a_folder(tmp_path, suffix):
    path = tmp_path / "folder" / f"grey{suffix}"
    path.parent.mkdir()
    Image.new("L", (32, 32), 51).save(path)
    (tmp_path / "notes.txt").write_text("no image")
    ((name, values),) = predict_template.read_samples(tmp_path, PLAIN | {"table": None}, [])
    assert name == str(path)
    assert values == pytest.approx(np.full((3, 32, 32), 0.2), abs=0.02)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "this folder has no files that the network reads"),
        ({"label": "y"}, "this is a folder; name CSV files"),
    ],
)
def test_folder_without_samples_is_reported(tmp_path, capsys, table, message):
    (tmp_path / "rows.csv").write_text("x\n1\n")
    assert list(predict_template.read_samples(tmp_path, PLAIN | {"table": table}, [])) == []
    assert capsys.readouterr().err == f"{tmp_path}: {message}\n"


def test_a_large_output_is_a_certain_prediction():
    """The probability of yes is 1 / (1 + exp(-x)), and exp(200) is too large for 32 bits."""
    outputs = np.array([[-200.0], [0.0], [200.0]], np.float32)
    probabilities = predict_template.compute_probabilities(outputs)
    assert probabilities.tolist() == [[1, 0], [0.5, 0.5], [0, 1]]


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("name", ["x.png", "x.eps"])
def test_postscript_starts_no_program(tmp_path, monkeypatch, name):
    started = tmp_path / "started"
    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 10 > {started}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # forget where Ghostscript is
    (tmp_path / name).write_bytes(POSTSCRIPT)
    unreadable = []
    assert (
        list(predict_template.read_file(tmp_path / name, PLAIN | {"table": None}, unreadable)) == []
    )
    assert unreadable == [tmp_path / name]
    assert not started.exists()
    assert (
        decode_image(partial(open_image_file, tmp_path / name), name, (3, 8, 8)) == "not an image"
    )


def test_names_do_not_control_the_terminal(tmp_path, capsys):
    path = tmp_path / "a\x1b]0;title\x07.png"
    path.write_bytes(b"no picture")
    assert list(predict_template.read_samples(tmp_path, PLAIN | {"table": None}, [])) == []
    printed = capsys.readouterr().err
    assert "a\ufffd]0;title\ufffd.png: cannot be read" in printed
    assert printed.rstrip("\n").isprintable()


def test_program_ends_quietly_when_the_pipe_is_closed(tmp_path):
    """As by `head`. The output is far larger than the buffer of a pipe."""
    shutil.copyfile(predict_template.__file__, tmp_path / "predict.py")
    config = {"input_shape": [1], "mean": [0.0], "std": [1.0], "table": None}
    config["classes"] = ["no", "yes"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.py").write_text("def load():\n    return lambda inputs: inputs\n")
    (tmp_path / "rows.csv").write_text("1\n" * 50_000)
    command = [sys.executable, str(tmp_path / "predict.py"), "rows.csv"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        first = running.stdout.readline()
        running.stdout.close()
        errors = running.stderr.read()
    assert first == b"rows.csv:1\tyes 0.7311\n"  # 1 / (1 + exp(-1))
    assert errors == b""


PICTURES_NEED_PILLOW = "reading pictures needs Pillow: pip install pillow\n"
NEEDS_ONNX = "running the network needs onnxruntime (pip install onnxruntime)"
NEEDS_TORCH = "torch and safetensors (pip install torch safetensors)"
MODEL_SOURCE = """\
def load():
    from safetensors.torch import load_file
"""


@pytest.mark.parametrize(
    ("missing", "runtime", "message"),
    [
        (["PIL"], "auto", PICTURES_NEED_PILLOW),
        (["onnxruntime"], "onnx", f"{NEEDS_ONNX}\n"),
        (["onnxruntime", "torch"], "auto", f"{NEEDS_ONNX}, or {NEEDS_TORCH}\n"),
        (["torch"], "torch", f"running the network needs {NEEDS_TORCH}\n"),
        (["safetensors"], "torch", f"running the network needs {NEEDS_TORCH}\n"),
        (["numpy"], "auto", "predict.py needs numpy: pip install numpy\n"),
    ],
)
def test_a_missing_package_is_named_once_and_no_picture_is_blamed(
    tmp_path, missing, runtime, message
):
    shutil.copyfile(predict_template.__file__, tmp_path / "predict.py")
    (tmp_path / "config.json").write_text(json.dumps(PLAIN | {"table": None, "classes": ["a"]}))
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "model.py").write_text(MODEL_SOURCE)
    for name in ("one.png", "two.png"):
        Image.new("RGB", (32, 32)).save(tmp_path / name)
    program = (
        "import runpy, sys\n"
        f"sys.modules.update(dict.fromkeys({missing}))\n"  # Python then finds no such module
        "sys.modules.setdefault('torch', type(sys))\n"  # importing the real one is slow
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    arguments = ["predict.py", "one.png", "two.png", "--runtime", runtime]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_a_network_for_arrays_does_not_need_pillow():
    assert predict_template.reads_images(PLAIN | {"table": None})
    assert not predict_template.reads_images(PLAIN | {"table": None, "reads_arrays": True})
    assert not predict_template.reads_images({"input_shape": [3], "table": {"label": "y"}})
