"""`untrained train`, and the contest of `untrained search`."""

import json
import re
import shutil
from pathlib import Path

import numpy as np

from tests.cli.helpers import SEARCH, read_usage_error
from tests.training.toys import fake_accelerate, write_archive
from untrained.training.accuracy import format_accuracy

NETWORK = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
"""


def make_train_command(project: Path, epochs: int) -> tuple[str, ...]:
    """Return a command that trains the network of `net.py` on a few small images."""
    data = ("--data", write_archive(project), "--input-shape", "1x6x6")
    return ("train", "./net.py:make", *data, "--epochs", str(epochs))


def test_train_and_report_a_network_of_the_user(run_cli, project):
    (project / "net.py").write_text(NETWORK)
    data = write_archive(project)
    command = (*make_train_command(project, epochs=3), "--run", "run")
    code, out, err = run_cli(*command, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert (result["what"], result["data"], result["recipe"]["epochs"]) == (
        "./net.py:make",
        data,
        3,
    )
    assert len(result["curve"]) == 3
    assert 0 <= result["accuracy"] <= 1
    assert {"model.pt", "train.json", "report.html"} <= {
        path.name for path in (project / "run").iterdir()
    }
    assert run_cli(*command, "--json")[1] == out
    code, out, _ = run_cli(*command)
    assert code == 0
    assert " ".join(out.split()).startswith(
        "this training was already finished, so nothing was trained now; to train again, use "
        "untrained train with --run run-2 Test accuracy"
    )
    test_result = format_accuracy(result["accuracy"], result["samples"]["test"])
    assert f"Test accuracy {test_result} after 3 epochs" in " ".join(out.split())
    assert "report: run/report.html" in out
    summary = json.loads(run_cli("report", "run", "--json")[1])
    assert summary == {"report": "run/report.html", "trained": result, "weights": "run/model.pt"}
    assert "holds another training, with epochs 3 (now 4)" in read_usage_error(
        run_cli(*command[:-4], "--epochs", "4", "--run", "run")
    )


def test_a_refit_and_the_decision_on_mirroring_are_printed(run_cli, project):
    (project / "net.py").write_text(NETWORK)
    command = (*make_train_command(project, epochs=2), "--run", "run")
    code, out, _ = run_cli(*command, "--refit", "validation")
    assert code == 0
    text = " ".join(out.split())
    assert (
        "trained on the training and the validation part: the moving average of the weights after "
        "epoch 2"
    ) in text
    assert (
        "pictures are not mirrored in training, because left and right distinguish their classes"
        in text
    )
    assert "selected" not in text
    assert "refit True (now False)" in read_usage_error(run_cli(*command))


def test_a_batch_larger_than_the_data_gives_a_warning_with_a_better_recipe(run_cli, project):
    (project / "net.py").write_text(NETWORK)
    command = make_train_command(project, epochs=1)
    text = " ".join(run_cli(*command, "--recipe", "quick", "--run", "few")[1].split())
    pattern = r'warning: the batch size 64 is larger than the 45 training samples, .*; for more steps: --recipe "([^"]+)"'
    (better,) = re.findall(pattern, text)
    assert better == "quick(epochs=1,batch=8)"
    code, out, _ = run_cli(*command[:-2], "--recipe", better, "--run", "more")
    assert code == 0
    assert "batch size" not in out
    assert "after 1 epoch," in " ".join(out.split())


def test_a_network_that_guesses_is_delivered_with_interval_and_warning(run_cli, project):
    """The learning rate is almost zero, and the labels have nothing to do with the noise."""
    (project / "net.py").write_text(NETWORK)
    draws = np.random.default_rng(0)
    x = draws.integers(0, 256, (60, 6, 6), dtype=np.uint8)
    np.savez(project / "noise.npz", x=x, y=np.arange(60) % 3)
    recipe = ("--recipe", "quick(epochs=1,batch=10,rate=1e-12)", "--run", "run")
    options = ("--data", "npz:noise.npz", "--input-shape", "1x6x6")
    code, out, _ = run_cli("train", "./net.py:make", *options, *recipe)
    assert code == 0
    assert "already finished" not in out
    accuracy = json.loads((project / "run" / "train.json").read_text())["accuracy"]
    # Of the 60 samples, 6 are for the test, 2 of each class.
    result = f"Test accuracy {format_accuracy(accuracy, 6)}"
    warning = (
        "the test accuracy is not clearly above the share of the most frequent class in the test "
        "part, 33.3 %, so"
    )
    assert run_cli("export", "run", "--out", "model")[0] == 0
    page = re.sub("<[^>]*>", " ", (project / "run" / "report.html").read_text())
    readme = (project / "model" / "README.md").read_text()
    for text in (out, page, readme):
        words = " ".join(text.split())
        assert result in words
        assert f"arning: {warning}" in words
        assert "--time 15m" in words


def test_progress_shows_epoch_loss_and_accuracy(run_cli, project):
    (project / "net.py").write_text(NETWORK)
    command = make_train_command(project, epochs=2)
    _, _, err = run_cli(*command)
    assert "epoch 2 of 2" in err
    assert "validation" in err
    assert next((project / "runs").iterdir()).name.startswith("train-net.py_make")
    _, _, err = run_cli(*command[:-2], "--recipe", "quick(epochs=2,batch=8)", "--run", "steps")
    # The error stream is not a terminal here, so a line is printed at the start.
    assert err.startswith("training: epoch 1 of 2\n")


# A network that presses Ctrl-C in the first training step.
INTERRUPTING_NETWORK = """
from torch import nn

class Stops(nn.Linear):
    def forward(self, x):
        if self.training:
            raise KeyboardInterrupt
        return super().forward(x)

def make():
    return nn.Sequential(nn.Flatten(), Stops(36, 3))
"""


def test_ctrl_c_exits_with_130_and_prints_what_was_kept(run_cli, project):
    (project / "net.py").write_text(INTERRUPTING_NETWORK)
    command = make_train_command(project, epochs=2)
    message = "error: stopped by Ctrl-C in epoch 1 of 2; nothing was saved yet\n"
    assert run_cli(*command) == (130, "", message)


def test_only_the_first_of_several_processes_prints_and_writes(run_cli, project, monkeypatch):
    """The others would write the same report at the same time and print it again."""
    (project / "net.py").write_text(NETWORK)
    command = make_train_command(project, epochs=1)
    fake_accelerate(monkeypatch, 1, 2)
    assert run_cli(*command, "--device", "accelerate", "--run", "run") == (0, "", "")
    assert not (project / "run").exists()
    fake_accelerate(monkeypatch, 0, 2)
    code, out, _ = run_cli(*command, "--device", "accelerate", "--run", "run")
    assert code == 0
    assert "report: run/report.html" in out


def test_a_narrow_terminal_shortens_the_bar_and_not_the_times(run_cli, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "78")
    (project / "net.py").write_text(NETWORK)
    command = make_train_command(project, epochs=10)
    _, _, err = run_cli(*command)
    assert re.search(r"epoch 10 of 10 .* elapsed \d:\d\d:\d\d left \d:\d\d:\d\d", err)


TABLE_NETWORK = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
"""


def test_train_on_a_table_uses_its_own_recipe_and_prints_log_loss(run_cli, project, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    (project / "net.py").write_text(TABLE_NETWORK)
    rows = [f"{i % 7 < 3},{i % 7 + i % 3 / 2},{i * i % 31 + 0.5}" for i in range(400)]
    (project / "c.csv").write_text("\n".join(["bought,a,b", *rows]))
    command = (
        "train",
        "./net.py:make",
        "--data",
        "csv:c.csv",
        "--label",
        "bought",
        "--input-shape",
        "2",
        "--run",
        "run",
    )
    code, out, err = run_cli(*command, "--json")
    result = json.loads(out)
    assert (code, err, result["recipe"]["name"], result["accuracy"]) == (0, "", "ctr", None)
    assert set(result["curve"][0]) == {"epoch", "rate", "loss", "val_loss", "val_auc"}
    assert result["data"] == "csv:c.csv?label=bought"
    assert sum(row["rows"] for row in result["calibration"]) == result["samples"]["test"]
    (project / "run" / "train.json").unlink()
    code, out, err = run_cli(*command)
    assert (
        f"Test log loss {result['loss']:.4f}, AUC {100 * result['auc']:.2f} % after 5 epochs" in out
    )
    assert f"log loss {result['best']['loss']:.4f}" in out
    assert f"validation {result['curve'][-1]['val_loss']:.4f}" in err


def test_a_wrong_training_is_refused_in_one_line(run_cli):
    assert "did you mean quick" in read_usage_error(
        run_cli("train", "./mine.py:make", "--data", "digits", "--recipe", "quik")
    )
    assert "--input-shape, such as 3x224x224" in read_usage_error(
        run_cli("train", "./mine.py:make", "--data", "digits")
    )
    assert "invalid input shape" in read_usage_error(
        run_cli("train", "./mine.py:make", "--input-shape", "3x")
    )
    assert "invalid duration" in read_usage_error(
        run_cli("train", "./mine.py:make", "--data", "digits", "--time", "soon")
    )
    assert "name the data to train on" in read_usage_error(run_cli("train", "./mine.py:make"))


def test_a_search_on_user_data_ends_with_a_contest(run_cli, project):
    command = [write_archive(project) if word == "noise" else word for word in SEARCH]
    command += ["--max-params", "1M", "--workers", "1"]
    _, out, _ = run_cli(*command, "--confirm", "2")
    lines = out.splitlines()
    assert lines[0].startswith("The contest of ")
    assert "The best" not in out
    contest = json.loads(run_cli("report", "run", "--json")[1])["contest"]
    (winner_row,) = [line for line in lines if re.match(r"\s*\* \d+ ", line)]
    assert winner_row.split()[:2] == ["*", str(contest["winner_number"])]
    assert "% of " in contest["verdict"]
    words = " ".join(out.split())
    for sentence in (contest["verdict"], *contest["sentences"]):
        assert sentence in words
    assert run_cli("report", "run")[1] == f"{contest['verdict']}\nreport: run/report.html\n"
    page = (project / "run" / "report.html").read_text()
    assert "--confirm 2" in page
    settings = page[page.index("<h2>Settings") :]
    assert re.search(r"max params</dt>\s*<dd>1M<", settings)
    assert re.search(r"networks trained per group</dt>\s*<dd>2<", settings)
    _, out, _ = run_cli(*command, "--no-confirm")
    assert "contest" not in out
    page = (project / "run" / "report.html").read_text()
    assert "--no-confirm" in page
    assert "per group</dt>" not in page
    assert ">Contest<" not in page
    assert "noise has no parts to train on" in read_usage_error(
        run_cli(*SEARCH[:-1], "other", "--confirm", "2")
    )


def test_the_help_says_when_the_winner_of_a_contest_is_refitted(run_cli, project):
    data = write_archive(project)
    command = [data if word == "noise" else word for word in SEARCH]
    run_cli(*command, "--max-params", "1M", "--workers", "1", "--confirm", "1")
    help_text = " ".join(run_cli("train", "--help")[1].replace("│", " ").split())
    (default,) = re.findall(r"\[default: \((none; [^]]*the winner of a contest)\)\]", help_text)
    assert "validation" in default
    (exceptions,) = re.findall(r"With ([^.]*), the default is none", help_text)
    options = {
        "": (),
        "--data": ("--data", data),
        "--recipe": ("--recipe", "quick"),
        "--run": ("--run", "other"),
        "--patience": ("--patience", "9"),
    }
    for number, (option, words) in enumerate(options.items()):
        # Each training has a copy of the run, without the training before it.
        copy = f"copy-{number}"
        shutil.copytree("run", copy)
        trained = json.loads(run_cli("train", copy, "--epochs", "1", *words, "--json")[1])
        assert trained["refit"] is (option == "")
        assert option in exceptions or option == ""
