"""The benchmark of training runs at a small size; its results are not checked."""

import csv
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from untrained.data.parts import ImagePart
from untrained.training.recipes import load_recipe

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "training.py"
ARCH = "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|skip_connect~0|nor_conv_3x3~1|none~2|"
TINY = [
    "--space",
    "nasbench201(channels=2,cells=1)",
    "--recipe",
    "cifar(epochs=2,batch=16,cutout=4,crop=2)",
]


def run_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> str:
    monkeypatch.setattr(sys, "argv", ["training.py", *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return capsys.readouterr().out


def run_throughput(monkeypatch, capsys, data: str, device: str) -> str:
    options = [
        "--data",
        data,
        "--device",
        device,
        "--network",
        ARCH,
        "--steps",
        "2",
        "--workers",
        "0",
        *TINY,
    ]
    return run_script(monkeypatch, capsys, "--part", "throughput", *options)


def run_cifar(monkeypatch, capsys, data: str, out: Path, device: str) -> str:
    search_options = [
        "--proxy",
        "naswot",
        "--strategy",
        "random",
        "--budget",
        "4",
        "--workers",
        "1",
        "--max-params",
        "10k",
    ]
    options = [
        "--data",
        data,
        "--device",
        device,
        "--out",
        str(out),
        "--steps",
        "2",
        *search_options,
        *TINY,
    ]
    return run_script(monkeypatch, capsys, "--part", "cifar", *options)


@pytest.fixture
def data(tmp_path: Path) -> str:
    draws = np.random.default_rng(0)
    np.savez(
        tmp_path / "noise.npz",
        x=draws.integers(0, 256, (100, 16, 16, 3), dtype=np.uint8),
        y=np.arange(100) % 4,
    )
    return f"npz:{tmp_path / 'noise.npz'}"


def test_throughput_is_compared_with_a_plain_loop(monkeypatch, capsys, data):
    rows = [
        line.split("|")[1:-1]
        for line in run_throughput(monkeypatch, capsys, data, "cpu").splitlines()
        if "|" in line[:1]
    ]
    table = {name.strip(): (rate.strip(), float(times)) for name, rate, times in rows[2:]}
    assert next(iter(table)) == "plain, float32, 0 workers"
    assert table["plain, float32, 0 workers"][1] == 1.0
    assert len(table) == 4
    assert all(times > 0 for _, times in table.values())


def test_the_cifar_part_searches_trains_and_resumes(monkeypatch, capsys, data, tmp_path):
    out = tmp_path / "out"
    first = run_cifar(monkeypatch, capsys, data, out, "cpu")
    networks = json.loads((out / "networks.json").read_text())["networks"]
    assert list(networks) == ["winner", "params", "random"]
    with (out / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["network"], row["epoch"]) for row in rows] == [
        (name, str(e)) for name in networks for e in (1, 2)
    ]
    assert first.count("epochs in 9 minutes") == 1
    page = (out / "results.md").read_text()
    for name in networks:
        trained = json.loads((out / name / "train.json").read_text())
        assert f"| {trained['params']:,} | {100 * trained['accuracy']:.2f} % | 2 |" in page
        assert trained["key"]["arch"] == networks[name]["arch"]
        assert trained["params"] <= 10_000
    sizes = {
        name: json.loads((out / name / "train.json").read_text())["params"] for name in networks
    }
    frame = json.loads((out / "search" / "run.json").read_text())["config"]
    assert (frame["proxy"], frame["limits"]) == ("naswot", {"params": "10k"})
    assert sizes["params"] >= sizes["winner"]
    weights = torch.load(out / "winner" / "model.pt", weights_only=True)
    again = run_cifar(monkeypatch, capsys, data, out, "cpu")
    assert "epoch 1 of 2" in first
    assert "epoch 1 of 2" not in again  # nothing is trained twice
    assert (out / "results.md").read_text() == page
    assert all(
        map(
            torch.equal,
            weights.values(),
            torch.load(out / "winner" / "model.pt", weights_only=True).values(),
        )
    )


def test_the_plain_loop_augments_as_the_recipe_says():
    """Without shifts and cutout an image is itself or its mirror image; a blanked square has the mean colour."""
    one_by_one = runpy.run_path(str(SCRIPT))["ImageByImage"]
    images = torch.arange(2 * 6 * 6 * 3, dtype=torch.uint8).reshape(2, 6, 6, 3)
    part = ImagePart(images, torch.tensor([0, 1]), torch.full((3,), 0.5), torch.full((3,), 0.25))
    plain = one_by_one(part, load_recipe("cifar(crop=0,cutout=0)"))
    normal = part.normalise(images)
    samples = [plain[1] for _ in range(20)]
    assert {label for _, label in samples} == {1}
    kinds = [(torch.equal(x, normal[1]), torch.equal(x, normal[1].flip(2))) for x, _ in samples]
    assert set(kinds) == {(True, False), (False, True)}
    blanked = one_by_one(part, load_recipe("cifar(crop=0,cutout=4)"))
    areas = {int((blanked[0][0] == 0).all(0).sum()) for _ in range(40)}
    assert max(areas) == 16
    assert min(areas) >= 4  # at a corner a quarter is left
    shifted = one_by_one(part, load_recipe("cifar(crop=2,cutout=0)"))
    black = (torch.zeros(3) - 0.5) / 0.25
    # The first row is padding.
    assert any(torch.allclose(shifted[0][0][:, 0].T, black) for _ in range(20))
