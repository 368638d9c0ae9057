"""`untrained export` and `untrained score --rank`."""

import json

import pytest

from tests.cli.helpers import read_usage_error

SHAPE = ("--input-shape", "3x8x8")


@pytest.fixture(autouse=True)
def without_onnx(monkeypatch):
    """Do not write ONNX, which takes seconds and is tested elsewhere."""
    import untrained.workflows.export

    def refuse(*_, **__):
        raise RuntimeError("not today")

    monkeypatch.setattr(untrained.workflows.export, "write_onnx", refuse)


def test_export_prints_the_folder_and_what_is_missing_in_it(run_cli, project):
    code, out, err = run_cli("export", "./mine.py:make", "--out", "out", *SHAPE)
    assert (code, err) == (0, "")
    assert "model.onnx was not written: not today" in out
    assert "the weights are not trained" in out
    assert f"exported: {project / 'out'}" in out
    assert (project / "out" / "README.md").read_text().startswith("**Untrained: the weights in this folder are as initialised by ./mine.py:make.**")  # fmt: skip # noqa: E501


def test_export_prints_json(run_cli, project):
    code, out, _ = run_cli(
        "export", "width=3", "--out", "out", "--space", "./mine.py:mynet", "--json"
    )
    result = json.loads(out)
    assert (code, result["folder"], result["arch"]) == (0, str(project / "out"), "width=3")
    assert result["params"] == 3 * 27 + 3 + 4 * (3 * 36 + 1)
    assert result["missing"] == {"model.onnx": "not today"}


def test_a_wrong_export_is_refused_in_one_line(run_cli, project):
    assert "the input shape of ./mine.py:make is unknown" in read_usage_error(
        run_cli("export", "./mine.py:make", "--out", "out")
    )
    assert "there is no file nothing.pt" in read_usage_error(
        run_cli("export", "./mine.py:make", "--out", "out", *SHAPE, "--weights", "nothing.pt")
    )
    assert "is not an earlier export" in read_usage_error(
        run_cli("export", "./mine.py:make", "--out", ".", *SHAPE)
    )
    assert not (project / "out").exists()


def test_rank_prints_which_network_to_train_and_what_size_would_choose(run_cli, project):
    (project / "models.py").write_text(
        "from torch import nn\n"
        "def a():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 5))\n"
        "def b():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.ReLU(), nn.Linear(2, 5))\n"
        "def c():\n    raise ValueError('[bold]')\n"
    )
    code, out, err = run_cli("score", "--rank", "./models.py", *SHAPE, "--proxy", "depth")
    assert (code, err) == (0, "")
    assert "train first: ./models.py:b" in out
    assert "params would choose ./models.py:a" in out
    assert "ValueError: [bold]" in out
    code, out, _ = run_cli("score", "--rank", "./models.py", *SHAPE, "--proxy", "depth", "--json")
    rows = json.loads(out)
    assert [(row["place"], row["arch"], row["params"]) for row in rows] == [
        (1, "./models.py:b", 193 * 2 + 15),
        (2, "./models.py:a", 193 * 5),
        (None, "./models.py:c", None),
    ]


def test_networks_are_ranked_by_consensus_by_default(run_cli, project):
    factory = (
        "def net{0}():\n    return nn.Sequential(nn.Conv2d(3, {0}, 3), nn.BatchNorm2d({0}), "
        "nn.ReLU(), nn.Flatten(), nn.Linear({0} * 36, 5))\n"
    )
    (project / "models.py").write_text(
        "from torch import nn\n" + "".join(map(factory.format, (2, 8, 30)))
    )
    code, out, err = run_cli("score", "--rank", "./models.py", *SHAPE)
    assert (code, err) == (0, "")
    assert "By consensus" in out
    assert "95 %" in out
    assert "3 networks are too few to tell how far the 8 proxies of consensus agree." in " ".join(
        out.split()
    )


def test_a_ranking_of_networks_with_different_outputs_prints_a_warning(run_cli, project):
    factory = "def net{0}():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, {0}))\n"
    (project / "models.py").write_text(
        "from torch import nn\n" + "".join(map(factory.format, (5, 3, 9)))
    )
    warning = (
        "warning: the networks have different numbers of outputs (3, 5, 9), and each was scored "
        "with as many classes as it has outputs; to use the same classes for all, add "
        "--classes 3 or --data\n"
    )
    command = ("score", "--rank", "./models.py", *SHAPE, "--proxy", "grad_norm")
    for as_json in ((), ("--json",)):
        code, out, err = run_cli(*command, *as_json)
        assert (code, err) == (0, warning)
    assert [row["place"] for row in json.loads(out)] == [1, 2, 3]
    for options in (("--classes", "3"), ("--data", "noise", "--classes", "3")):
        code, _, err = run_cli(*command, *options)
        assert (code, err) == (0, "")
