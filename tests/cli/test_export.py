"""`untrained export` and `untrained score --rank`: a document under --json, words otherwise, one line when wrong."""

import json
import sys

import pytest

from tests.cli.helpers import wrong

SHAPE = ("--input-shape", "3x8x8")


@pytest.fixture(autouse=True)
def no_onnx(monkeypatch):
    """Writing ONNX takes seconds; here only words are looked at."""
    import untrained.exports  # noqa: F401

    def refuse(*_, **__):
        raise RuntimeError("not today")

    monkeypatch.setattr(sys.modules["untrained.exports.export"], "write_onnx", refuse)


def test_export_says_what_it_wrote_and_what_not(untrained_, project):
    code, out, err = untrained_("export", "./mine.py:make", "--out", "out", *SHAPE)
    assert (code, err) == (0, "")
    assert "model.onnx was not written: not today" in out
    assert "the weights are untrained" in out
    assert f"exported: {project / 'out'}" in out
    assert (project / "out" / "README.md").read_text().startswith("**Untrained: the weights in this folder are as they were made by ./mine.py:make.**")  # fmt: skip # noqa: E501


def test_export_prints_one_document(untrained_, project):
    code, out, _ = untrained_("export", "width=3", "--out", "out", "--space", "./mine.py:mynet", "--json")
    found = json.loads(out)
    assert (code, found["folder"], found["arch"]) == (0, str(project / "out"), "width=3")
    assert found["params"] == 3 * 27 + 3 + 4 * (3 * 36 + 1)
    assert found["missing"] == {"model.onnx": "not today"}


def test_wrong_requests_are_answered_in_one_line(untrained_, project):
    assert "say what ./mine.py:make takes as input" in wrong(untrained_("export", "./mine.py:make", "--out", "out"))
    assert "there is no file nothing.pt" in wrong(
        untrained_("export", "./mine.py:make", "--out", "out", *SHAPE, "--weights", "nothing.pt")
    )
    assert "is no earlier export" in wrong(untrained_("export", "./mine.py:make", "--out", ".", *SHAPE))
    assert not (project / "out").exists()


def test_rank_says_which_to_train_and_what_size_would_choose(untrained_, project):
    (project / "models.py").write_text(
        "from torch import nn\n"
        "def a():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 5))\n"
        "def b():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.ReLU(), nn.Linear(2, 5))\n"
        "def c():\n    raise ValueError('[bold]')\n"
    )
    code, out, err = untrained_("score", "--rank", "./models.py", *SHAPE, "--proxy", "depth")
    assert (code, err) == (0, "")
    assert "train first: ./models.py:b" in out
    assert "params would choose ./models.py:a" in out
    assert "ValueError: [bold]" in out
    code, out, _ = untrained_("score", "--rank", "./models.py", *SHAPE, "--proxy", "depth", "--json")
    rows = json.loads(out)
    assert [(row["place"], row["arch"], row["params"]) for row in rows] == [
        (1, "./models.py:b", 193 * 2 + 15),
        (2, "./models.py:a", 193 * 5),
        (None, "./models.py:c", None),
    ]


def test_a_ranking_of_networks_that_were_not_asked_the_same_says_so(untrained_, project):
    made = "def net{0}():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, {0}))\n"
    (project / "models.py").write_text("from torch import nn\n" + "".join(map(made.format, (5, 3, 9))))
    told = "careful: the networks have 3, 5 or 9 outputs, and each was judged on as many classes; --classes 3 or --data"
    command = ("score", "--rank", "./models.py", *SHAPE, "--proxy", "grad_norm")
    for more in ((), ("--json",)):
        code, out, err = untrained_(*command, *more)
        assert (code, err) == (0, f"{told} asks all the same\n")
    assert [row["place"] for row in json.loads(out)] == [1, 2, 3]
    for asked in (("--classes", "3"), ("--data", "noise", "--classes", "3")):
        code, _, err = untrained_(*command, *asked)
        assert (code, err) == (0, "")
