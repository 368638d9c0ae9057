"""The program that goes with a model reads pictures as the training did, and is a program like others."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial

import pytest
from PIL import EpsImagePlugin

from tests.data.pictures import alike, write_odd
from untrained.data._decode import decoded, open_file
from untrained.exports import _predict

PLAIN = {"input_shape": [3, 32, 32], "mean": [0.0] * 3, "std": [1.0] * 3}


def test_a_picture_of_any_kind_is_seen_as_it_is_meant(tmp_path):
    expected = write_odd(tmp_path / "photos" / "cats")
    for name, pixels in expected.items():
        seen = _predict.picture(tmp_path / "photos" / "cats" / name, PLAIN)
        assert alike(name, (255 * seen).round().transpose(1, 2, 0), pixels), name


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("name", ["x.png", "x.eps"])
def test_postscript_starts_no_program(tmp_path, monkeypatch, name):
    started = tmp_path / "started"
    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 10 > {started}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # what it found earlier
    (tmp_path / name).write_bytes(POSTSCRIPT)
    refused = []
    assert list(_predict.attempt(tmp_path / name, PLAIN | {"table": None}, refused)) == []
    assert refused == [tmp_path / name]
    assert not started.exists()
    assert decoded(partial(open_file, tmp_path / name), name, (3, 8, 8)) == "not an image"


def test_names_give_no_orders_to_a_terminal(tmp_path, capsys):
    path = tmp_path / "a\x1b]0;title\x07.png"
    path.write_bytes(b"no picture")
    assert list(_predict.samples(tmp_path, PLAIN | {"table": None}, [])) == []
    said = capsys.readouterr().err
    assert "a\ufffd]0;title\ufffd.png: cannot be read" in said
    assert said.rstrip("\n").isprintable()


def test_the_program_ends_quietly_when_nobody_reads_on(tmp_path):
    """As `head` stops reading. Far more is said than a pipe holds."""
    shutil.copyfile(_predict.__file__, tmp_path / "predict.py")
    told = {"input_shape": [1], "table": None, "classes": ["no", "yes"]}
    (tmp_path / "config.json").write_text(json.dumps(told))
    (tmp_path / "model.py").write_text("def load():\n    return lambda inputs: inputs\n")
    (tmp_path / "rows.csv").write_text("1\n" * 50_000)
    command = [sys.executable, str(tmp_path / "predict.py"), "rows.csv"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        first = running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read()
    assert first == b"rows.csv:1\tyes 0.7311\n"  # 1 / (1 + exp(-1))
    assert said == b""
