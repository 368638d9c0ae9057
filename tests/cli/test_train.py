"""`untrained train` and `--confirm`, typed."""

import json

from tests.cli.helpers import SEARCH, wrong
from tests.training.toys import archive

NET = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
"""


def test_a_network_of_the_users_own_is_trained_and_reported(untrained_, project):
    (project / "net.py").write_text(NET)
    data = archive(project)
    ask = ("train", "./net.py:make", "--data", data, "--input-shape", "1x6x6", "--epochs", "3", "--run", "run")
    code, out, err = untrained_(*ask, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["what"], found["data"], found["recipe"]["epochs"]) == ("./net.py:make", data, 3)
    assert len(found["curve"]) == 3
    assert 0 <= found["accuracy"] <= 1
    assert {"model.pt", "train.json", "report.html"} <= {path.name for path in (project / "run").iterdir()}
    code, out, _ = untrained_(*ask)
    assert code == 0
    assert f"Test accuracy {100 * found['accuracy']:.2f} % after 3 epochs" in out
    assert "report: run/report.html" in out
    assert "holds another training, with epochs 3 (now 4)" in wrong(
        untrained_(*ask[:-4], "--epochs", "4", "--run", "run")
    )


def test_the_progress_says_epoch_loss_and_accuracy(untrained_, project):
    (project / "net.py").write_text(NET)
    ask = ("train", "./net.py:make", "--data", archive(project), "--input-shape", "1x6x6", "--epochs", "2")
    _, _, err = untrained_(*ask)
    assert "epoch 2 of 2" in err
    assert "validation" in err
    assert next((project / "runs").iterdir()).name.startswith("train-net.py_make")


def test_wrong_requests_are_answered_in_one_line(untrained_):
    assert "did you mean quick" in wrong(untrained_("train", "./mine.py:make", "--data", "digits", "--recipe", "quik"))
    assert "--input-shape 3x224x224" in wrong(untrained_("train", "./mine.py:make", "--data", "digits"))
    assert "impossible input shape" in wrong(untrained_("train", "./mine.py:make", "--input-shape", "3x"))
    assert "impossible duration" in wrong(untrained_("train", "./mine.py:make", "--data", "digits", "--time", "soon"))
    assert "say what to train on" in wrong(untrained_("train", "./mine.py:make"))


def test_the_search_confirms_where_the_data_are_the_users_own(untrained_, project):
    own = [archive(project) if word == "noise" else word for word in SEARCH]
    _, out, _ = untrained_(*own, "--confirm", "2", "--workers", "1")
    assert "than chosen at random" in out
    assert "--confirm 2" in (project / "run" / "report.html").read_text()
    _, out, _ = untrained_(*own, "--no-confirm", "--workers", "1")
    assert "than chosen" not in out
    assert "--no-confirm" in (project / "run" / "report.html").read_text()
    assert "noise has nothing to learn from" in wrong(untrained_(*SEARCH[:-1], "other", "--confirm", "2"))
