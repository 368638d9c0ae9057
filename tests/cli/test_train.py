"""`untrained train` and `--confirm`, typed."""

import json
import re

from tests.cli.helpers import SEARCH, wrong
from tests.training.toys import accelerate, archive

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
    told = json.loads(untrained_("report", "run", "--json")[1])
    assert told == {"report": "run/report.html", "trained": found, "weights": "run/model.pt"}
    assert "holds another training, with epochs 3 (now 4)" in wrong(
        untrained_(*ask[:-4], "--epochs", "4", "--run", "run")
    )


def test_fewer_pictures_than_a_batch_are_told_with_a_batch_that_is_smaller(untrained_, project):
    (project / "net.py").write_text(NET)
    ask = ("train", "./net.py:make", "--data", archive(project), "--input-shape", "1x6x6", "--epochs", "1")
    shown = " ".join(untrained_(*ask, "--run", "few")[1].split())
    said = r'careful: batches of 64 are more than the 42 samples to learn from, .*; more steps: --recipe "([^"]+)"'
    (better,) = re.findall(said, shown)
    assert better == "quick(epochs=1,batch=8)"
    code, out, _ = untrained_(*ask[:-2], "--recipe", better, "--run", "more")
    assert code == 0
    assert "careful" not in out
    assert "after 1 epoch," in out


def test_the_progress_says_epoch_loss_and_accuracy(untrained_, project):
    (project / "net.py").write_text(NET)
    ask = ("train", "./net.py:make", "--data", archive(project), "--input-shape", "1x6x6", "--epochs", "2")
    _, _, err = untrained_(*ask)
    assert "epoch 2 of 2" in err
    assert "validation" in err
    assert next((project / "runs").iterdir()).name.startswith("train-net.py_make")
    _, _, err = untrained_(*ask[:-2], "--recipe", "quick(epochs=2,batch=8)", "--run", "steps")
    assert err.startswith("training: epoch 1 of 2\n")  # no terminal: a line when it begins


STOPS = """
from torch import nn

class Stops(nn.Linear):
    def forward(self, x):
        if self.training:
            raise KeyboardInterrupt
        return super().forward(x)

def make():
    return nn.Sequential(nn.Flatten(), Stops(36, 3))
"""


def test_ctrl_c_says_what_was_kept_and_is_the_shells_exit_code(untrained_, project):
    (project / "net.py").write_text(STOPS)
    ask = ("train", "./net.py:make", "--data", archive(project), "--input-shape", "1x6x6", "--epochs", "2")
    told = "error: stopped by Ctrl-C in epoch 1 of 2; nothing was kept yet\n"
    assert untrained_(*ask) == (130, "", told)


def test_of_several_processes_the_first_one_speaks(untrained_, project, monkeypatch):
    """The others would write the same page at the same time, and print what is printed already."""
    (project / "net.py").write_text(NET)
    ask = ("train", "./net.py:make", "--data", archive(project), "--input-shape", "1x6x6", "--epochs", "1")
    accelerate(monkeypatch, 1, 2)
    assert untrained_(*ask, "--device", "accelerate", "--run", "run") == (0, "", "")
    assert not (project / "run").exists()
    accelerate(monkeypatch, 0, 2)
    code, out, _ = untrained_(*ask, "--device", "accelerate", "--run", "run")
    assert (code, "report: run/report.html" in out) == (0, True)


def test_in_a_narrow_terminal_the_bar_gives_way_and_not_the_seconds(untrained_, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "78")
    (project / "net.py").write_text(NET)
    ask = ("train", "./net.py:make", "--data", archive(project), "--input-shape", "1x6x6", "--epochs", "10")
    _, _, err = untrained_(*ask)
    assert re.search(r"epoch 10 of 10 .* elapsed \d:\d\d:\d\d left \d:\d\d:\d\d", err)


TABLE = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
"""


def test_a_table_is_trained_by_its_own_recipe_and_told_by_log_loss(untrained_, project, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    (project / "net.py").write_text(TABLE)
    rows = [f"{i % 7 < 3},{i % 7 + i % 3 / 2},{i * i % 31 + 0.5}" for i in range(400)]
    (project / "c.csv").write_text("\n".join(["bought,a,b", *rows]))
    ask = ("train", "./net.py:make", "--data", "csv:c.csv", "--label", "bought", "--input-shape", "2", "--run", "run")
    code, out, err = untrained_(*ask, "--json")
    found = json.loads(out)
    assert (code, err, found["recipe"]["name"], found["accuracy"]) == (0, "", "ctr", None)
    assert set(found["curve"][0]) == {"epoch", "rate", "loss", "val_loss", "val_auc"}
    assert found["data"] == "csv:c.csv?label=bought"
    assert sum(row["rows"] for row in found["calibration"]) == found["samples"]["test"]
    (project / "run" / "train.json").unlink()
    code, out, err = untrained_(*ask)
    assert f"Test log loss {found['loss']:.4f}, AUC {found['auc']:.4f} after 5 epochs" in out
    assert f"log loss {found['chosen']['loss']:.4f}" in out
    assert f"validation {found['curve'][-1]['val_loss']:.4f}" in err


def test_wrong_requests_are_answered_in_one_line(untrained_):
    assert "did you mean quick" in wrong(untrained_("train", "./mine.py:make", "--data", "digits", "--recipe", "quik"))
    assert "--input-shape 3x224x224" in wrong(untrained_("train", "./mine.py:make", "--data", "digits"))
    assert "impossible input shape" in wrong(untrained_("train", "./mine.py:make", "--input-shape", "3x"))
    assert "impossible duration" in wrong(untrained_("train", "./mine.py:make", "--data", "digits", "--time", "soon"))
    assert "say what to train on" in wrong(untrained_("train", "./mine.py:make"))


def test_the_search_confirms_where_the_data_are_the_users_own(untrained_, project):
    own = [archive(project) if word == "noise" else word for word in SEARCH]
    own += ["--max-params", "1M", "--workers", "1"]
    _, out, _ = untrained_(*own, "--confirm", "2")
    assert "than chosen at random" in out
    page = (project / "run" / "report.html").read_text()
    assert "--confirm 2" in page
    settings = page[page.index("<h2>Settings") :]
    assert re.search(r"max params</dt>\s*<dd>1M<", settings)
    assert re.search(r"confirmation</dt>\s*<dd>2 short trainings per group<", settings)
    _, out, _ = untrained_(*own, "--no-confirm")
    assert "than chosen" not in out
    page = (project / "run" / "report.html").read_text()
    assert "--no-confirm" in page
    assert "confirmation</dt>" not in page
    assert "noise has nothing to learn from" in wrong(untrained_(*SEARCH[:-1], "other", "--confirm", "2"))
