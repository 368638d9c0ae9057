"""Training: it is reproducible, a step follows its formula, it stops in time, and each part is read at its time."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.training.toys import (
    ROWS,
    CountedRows,
    fake_accelerate,
    get_weights,
    make_busy,
    make_rows,
    states_equal,
    train_toy,
    use_parts,
    write_archive,
)
from untrained import Arch, Probe, load_space, proxy, search
from untrained.data.parts import ImagePart
from untrained.errors import Interrupted, UsageError
from untrained.seeds import make_generator
from untrained.training.batches import BatchLoader
from untrained.training.ema import WeightAverage
from untrained.training.loop import Training
from untrained.training.network import DropPathSchedule, make_loss, make_optimiser
from untrained.training.recipes import load_recipe
from untrained.training.result import TrainingKey
from untrained.types import Task
from untrained.workflows.score import score_networks
from untrained.workflows.train import _format_command, train
from untrained.workflows.training_setup import add_recipe_options, format_space

TASK = Task("stripes", (1, 6, 6), 3)
PLAIN = "quick(epochs=2,batch=10,average=0.0,crop=0)"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_archive(tmp_path)


def test_the_same_call_gives_the_same_weights_and_another_seed_others(tmp_path, data):
    model = make_busy()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    first = train_toy(tmp_path / "a", data, what=model)
    assert torch.equal(torch.get_rng_state(), state)
    assert states_equal(before, dict(model.state_dict()))  # the user's module is left alone
    torch.manual_seed(5)
    assert states_equal(get_weights(train_toy(tmp_path / "b", data)), get_weights(first))
    assert not states_equal(
        get_weights(train_toy(tmp_path / "c", data, seed=1)), get_weights(first)
    )


def test_steps_are_not_replayed_on_a_cpu(tmp_path, data):
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    replay = PLAIN.replace(")", ",graphs=True)")
    launched = train_toy(tmp_path / "a", data, PLAIN, what=net)
    replayed = train_toy(tmp_path / "b", data, replay, what=net)
    assert states_equal(get_weights(launched), get_weights(replayed))
    assert DropPathSchedule(make_busy()).is_active
    assert not DropPathSchedule(net).is_active


def test_a_learnable_task_is_learned_and_the_result_is_written(tmp_path, data):
    result = train_toy(tmp_path / "a", data, "quick(epochs=12,batch=10,crop=0)")
    assert result.accuracy == 1.0
    assert result.samples == {"train": 45, "val": 9, "test": 6}
    facts = json.loads((tmp_path / "a" / "train.json").read_text())
    assert (facts["accuracy"], facts["key"]["recipe"]["epochs"]) == (1.0, 12)
    assert [row["epoch"] for row in facts["curve"]] == list(range(1, 13))
    assert facts["curve"][-1]["loss"] < facts["curve"][0]["loss"]
    assert {"python", "untrained", "torch"} <= facts["versions"].keys()
    assert facts["confusion"] == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    assert facts["mistakes"] == []
    assert facts["samples_per_second"] > 0
    state = torch.load(tmp_path / "a" / "model.pt", weights_only=True)
    assert states_equal(state, get_weights(result))


def test_the_test_part_is_read_once_with_the_weights_that_validation_selects(tmp_path, monkeypatch):
    parts = {
        "train": make_rows(64),
        "val": make_rows(32, seed=1),
        "test": make_rows(32, seed=2),
    }
    use_parts(monkeypatch, ROWS, parts)
    result = train(
        nn.Linear(4, 2), "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a"
    )
    assert parts["test"].passes == 1
    assert parts["val"].passes == 4 * 2  # the weights and their average, after every epoch
    assert (parts["train"].passes, all(parts["train"].orders)) == (4, True)
    assert result.accuracy > 0.8
    assert result.best["accuracy"] == max(row["val_accuracy"] for row in result.curve)
    train(nn.Linear(4, 2), "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a")
    assert parts["test"].passes == 1


def test_among_equal_epochs_the_average_of_the_last_one_is_selected(tmp_path, monkeypatch):
    easy = CountedRows(
        torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]] * 16), torch.tensor([0, 1] * 16)
    )
    use_parts(monkeypatch, ROWS, {"train": easy, "val": easy, "test": easy})
    model = nn.Linear(4, 2)
    model.weight.data = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
    result = train(model, "rows", "quick(epochs=3,batch=16,average=0.9)", run=tmp_path / "a")
    assert {row["val_accuracy"] for row in result.curve} == {1.0}
    assert (result.best["epoch"], result.best["kind"]) == (3, "average")


def test_an_average_that_is_worse_is_not_selected(tmp_path, monkeypatch):
    parts = {
        "train": make_rows(64),
        "val": make_rows(32, seed=1),
        "test": make_rows(32, seed=2),
    }
    use_parts(monkeypatch, ROWS, parts)
    # The average keeps the first weights, which are wrong.
    monkeypatch.setattr(WeightAverage, "update", lambda self, step: None)
    model = nn.Linear(4, 2)
    model.weight.data = torch.tensor([[0.1, 0, 0, 0], [-0.1, 0, 0, 0]])
    result = train(model, "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a")
    assert (result.best["kind"], result.best["epoch"]) == ("weights", 4)
    assert result.accuracy > 0.8


def test_the_selected_weights_are_tested_and_saved(tmp_path, monkeypatch):
    """The training labels are inverted, so the average, which keeps the first weights, is the best."""
    correct = make_rows(64)
    parts = {
        "train": CountedRows(correct.inputs, 1 - correct.targets),
        "val": make_rows(32, seed=1),
        "test": make_rows(32, seed=2),
    }
    use_parts(monkeypatch, ROWS, parts)
    monkeypatch.setattr(WeightAverage, "update", lambda self, step: None)
    model = nn.Linear(4, 2)
    model.weight.data = torch.tensor([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    model.bias.data = torch.zeros(2)
    result = train(model, "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a")
    assert (result.best["kind"], result.accuracy) == ("average", 1.0)
    assert states_equal(get_weights(result), dict(model.state_dict()))
    assert states_equal(
        torch.load(tmp_path / "a" / "model.pt", weights_only=True), dict(model.state_dict())
    )


def test_training_stops_when_validation_no_longer_improves(tmp_path, monkeypatch):
    """All inputs are equal, so no epoch is better than the first."""
    same_rows = CountedRows(torch.zeros(32, 4), torch.arange(32) % 2)
    use_parts(
        monkeypatch,
        ROWS,
        {"train": same_rows, "val": same_rows, "test": same_rows},
    )
    result = train(
        nn.Linear(4, 2), "rows", "quick(epochs=50,batch=16)", patience=3, run=tmp_path / "a"
    )
    assert (result.end_reason, len(result.curve)) == ("patience", 4)
    assert not (tmp_path / "a" / "checkpoint.pt").exists()


def test_a_diverged_training_is_one_line_of_error_and_the_folder_can_be_used_again(tmp_path, data):
    with pytest.raises(UsageError) as caught:
        train_toy(
            tmp_path / "a",
            data,
            "quick(epochs=3,batch=10,rate=1e30,clip=0.0,warm_up=0.0)",
            checkpoint_every=1,
        )
    assert "diverged: the loss of epoch 1 is" in str(caught.value)
    # A tenth of the rate, 1e29, would diverge too, so the recipe's default is proposed.
    usual_rate = "quick(epochs=3,batch=10,warm_up=0.0,clip=0.0)"
    assert f"--recipe '{usual_rate}'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert train_toy(tmp_path / "a", data).end_reason == "epochs"


def test_rows_of_a_table_are_a_binary_classification(tmp_path, monkeypatch):
    parts: dict[str, Any] = {
        name: make_rows(64, seed=i) for i, name in enumerate(("train", "val", "test"))
    }
    use_parts(monkeypatch, Task("rows", (4,), 1, "bce"), parts)
    result = train(nn.Linear(4, 1), "rows", "quick(epochs=6,batch=16,rate=0.5)", run=tmp_path / "a")
    assert result.auc > 0.9
    assert result.accuracy is None


WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "name the data to train on": (make_busy(), {"data": None}),
    "returns (2, 5), but npz:stripes.npz needs (2, 3)": (
        nn.Sequential(nn.Flatten(), nn.Linear(36, 5)),
        {},
    ),
    "cannot read samples of (1, 6, 6)": (nn.Sequential(nn.Flatten(), nn.Linear(35, 3)), {}),
    "nothing to learn": (nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).requires_grad_(False), {}),
    "photos has no parts to train on": (make_busy(), {"data": "photos"}),
    "device 'gpu' cannot be used": (make_busy(), {"device": "gpu"}),
    "is not a run folder": (".", {}),
    "an object of the type int is not a network": (3, {}),
    "a function is not a network; give the one that it returns: make_busy()": (make_busy, {}),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_call_is_refused_in_one_line(tmp_path, data, message):
    what, options = WRONG[message]
    arguments = {"data": data, "input_shape": (1, 6, 6), "run": tmp_path / "run"} | options
    with pytest.raises(UsageError) as caught:
        train(what, **arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------------------------------ the pieces


def test_the_loss_smooths_labels_and_weights_the_auxiliary_tower():
    """Smoothed by s over K classes, the target is (1 - s) on the label plus s / K everywhere."""
    outputs = torch.randn(4, 3)
    auxiliary_outputs = torch.randn(4, 3)
    labels = torch.tensor([0, 1, 2, 0])
    target = 0.9 * F.one_hot(labels, 3) + 0.1 / 3
    main = -(target * outputs.log_softmax(1)).sum(1).mean()
    auxiliary = -(target * auxiliary_outputs.log_softmax(1)).sum(1).mean()
    loss = make_loss(TASK, load_recipe("quick(smoothing=0.1,auxiliary=0.4)"))
    torch.testing.assert_close(loss(outputs, labels), main)
    torch.testing.assert_close(loss((auxiliary_outputs, outputs), labels), main + 0.4 * auxiliary)
    # A first output of another shape holds features and has no loss.
    torch.testing.assert_close(loss((torch.randn(4, 8), outputs), labels), main)
    # Mixup passes probabilities instead of labels.
    torch.testing.assert_close(loss(outputs, F.one_hot(labels, 3).float()), main)
    with pytest.raises(UsageError, match="cannot train with the loss 'hinge'"):
        make_loss(Task("x", (1,), 1, "hinge"), load_recipe("quick"))


def test_the_average_follows_its_formula():
    """The decay is min(0.9, (1 + n) / (10 + n)): 0.1, 2/11, 3/12, ..., 0.9."""
    model = nn.BatchNorm1d(1)
    model.weight.data.fill_(0.0)
    average = WeightAverage(model, 0.9)
    expected = 0.0
    for step in range(200):
        model.weight.data.fill_(float(step % 7))
        model.num_batches_tracked.fill_(step)
        average.update(step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * (step % 7)
        assert float(average.model.weight.detach()) == pytest.approx(expected, rel=1e-5)
    assert int(average.model.num_batches_tracked) == 199


def test_a_tensor_with_two_names_is_averaged_once_and_each_slice_of_a_storage_once():
    """With decay 1/2, the average of 0 and 1 is 1/2, and that of 0 and -2 is -1."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(1, 1, bias=False)
            self.b = nn.Linear(1, 1, bias=False)
            self.b.weight = self.a.weight
            whole = torch.zeros(4)
            self.register_buffer("left", whole[:2])
            self.register_buffer("right", whole[2:])
            self.register_buffer("again", whole[2:])

    model = Shared()
    model.a.weight.data.zero_()
    average = WeightAverage(model, 0.5)
    model.a.weight.data.fill_(1.0)
    model.left.fill_(1.0)
    model.right.fill_(-2.0)
    average.update(1000)
    averages = {
        name: tensor.flatten().tolist() for name, tensor in average.model.state_dict().items()
    }
    halves = {"left": [0.5, 0.5], "right": [-1.0, -1.0], "again": [-1.0, -1.0]}
    assert averages == {"a.weight": [0.5], "b.weight": [0.5], **halves}


def test_norms_and_biases_decay_only_if_the_recipe_says_so():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    for recipe, expected in (("quick(decay=0.1)", 0.1), ("quick(decay=0.1,decay_all=False)", 0.0)):
        groups = make_optimiser(model, load_recipe(recipe)).param_groups
        decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
        assert decays[id(model[0].weight)] == 0.1
        assert {decays[id(p)] for p in (model[0].bias, model[1].weight, model[1].bias)} == {
            expected
        }
    assert type(make_optimiser(model, load_recipe("quick(optimiser=adamw)"))).__name__ == "AdamW"


def test_drop_path_grows_to_the_rate_that_the_network_was_built_with():
    model = load_space("darts(channels=4,cells=3,drop_path=0.2)")
    network = model.build(model.sample(make_generator("toy")))
    paths = DropPathSchedule(network)
    paths.scale_rates(0.25)
    assert network.drop_path == pytest.approx(0.05)
    paths.scale_rates(1.0)
    assert network.drop_path == 0.2
    assert DropPathSchedule(nn.Linear(1, 1)).initial_rates == []


def test_every_epoch_has_another_order_and_drops_the_incomplete_batch():
    part = ImagePart(
        torch.arange(23, dtype=torch.uint8).reshape(23, 1, 1, 1),
        torch.arange(23),
        torch.zeros(1),
        torch.ones(1),
    )
    loader = BatchLoader.open(
        part, Task("x", (1, 1, 1), 23), load_recipe("quick(batch=5,crop=0)"), "cpu", seed=3
    )
    assert loader.steps_per_epoch == 4
    epochs = [
        torch.cat([batch.targets for batch in loader.iterate_training_batches(epoch)]).tolist()
        for epoch in (0, 1)
    ]
    assert [len(set(targets)) for targets in epochs] == [20, 20]
    assert epochs[0] != epochs[1]
    rest = torch.cat(
        [batch.targets for batch in loader.iterate_training_batches(0, first_step=3)]
    ).tolist()
    assert rest == epochs[0][15:]
    shifting_loader = BatchLoader.open(
        part, Task("x", (1, 1, 1), 23), load_recipe("quick(batch=23,crop=1)"), "cpu", seed=3
    )
    black_pixels = [
        tuple(
            (next(shifting_loader.iterate_training_batches(epoch)).inputs == 0).flatten().tolist()
        )
        for epoch in range(4)
    ]
    assert len(set(black_pixels)) == 4  # every step is augmented differently
    batch = next(loader.iterate_training_batches(0))
    torch.testing.assert_close(batch.inputs.flatten() * 255, batch.targets.float())
    assert torch.cat(
        [batch.targets for batch in loader.iterate_evaluation_batches()]
    ).tolist() == list(range(23))


def test_a_step_follows_the_recipe(tmp_path, data, monkeypatch):
    """The first step of SGD has no momentum yet: w - rate (g + decay w) with the clipped gradient g."""
    steps: list[Any] = []
    train_step = Training.train_step

    def train_one_step(self: Training, batch: Any) -> None:
        before = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        train_step(self, batch)
        steps.append(
            (before, {n: p.detach().clone() for n, p in self.model.named_parameters()}, batch)
        )
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "train_step", train_one_step)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    recipe = "quick(batch=10,crop=0,warm_up=0.0,rate=0.5,decay=0.01,nesterov=False,clip=0.1,smoothing=0.0)"
    with pytest.raises(Interrupted):
        train_toy(tmp_path / "a", data, recipe, what=model)
    before, after, batch = steps[0]
    p = (batch.inputs.flatten(1) @ before["1.weight"].T + before["1.bias"]).softmax(1)
    slope = (p - F.one_hot(batch.targets, 3)) / 10
    gradients = {"1.weight": slope.T @ batch.inputs.flatten(1), "1.bias": slope.sum(0)}
    norm = torch.cat([g.flatten() for g in gradients.values()]).norm()
    assert norm > 0.1
    for name, g in gradients.items():
        torch.testing.assert_close(
            after[name], before[name] - 0.5 * (g * 0.1 / norm + 0.01 * before[name])
        )


# ------------------------------------------------------------------------------------------------------------ what


CELL = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"


def test_an_architecture_can_be_a_string_an_arch_or_a_run_folder(tmp_path):
    small = "nasbench201(channels=2,cells=1)"
    options: dict[str, Any] = {
        "data": "digits",
        "recipe": "quick(epochs=1,batch=256)",
        "input_shape": (3, 8, 8),
    }
    by_text = train(CELL, space=small, run=tmp_path / "a", **options)
    space = load_space(small)
    by_arch = train(space.parse(CELL), space=space, run=tmp_path / "b", **options)
    assert states_equal(get_weights(by_text), get_weights(by_arch))
    assert (by_text.key.space, by_text.key.arch) == (small, CELL)
    search_result = search(small, "params", budget=3, run=tmp_path / "c", workers=1, input_size=8)
    best = train(tmp_path / "c", recipe=options["recipe"])
    assert json.loads((tmp_path / "c" / "train.json").read_text())["task"]["input_shape"] == [
        3,
        8,
        8,
    ]
    assert (best.key.arch, best.key.data, best.folder) == (
        str(search_result.best),
        "digits",
        str(tmp_path / "c"),
    )
    assert f"untrained train {tmp_path / 'c'}" in best.command


def test_training_starts_from_the_weights_that_were_scored(tmp_path):
    first_weights = []

    @proxy()
    def read_first_weight(probe: Probe) -> float:
        first_weights.append(next(probe.model.parameters()).detach().clone())
        return 0.0

    small = load_space("nasbench201(channels=2,cells=1)")
    score_networks(small.parse(CELL), read_first_weight, "digits", space=small)
    result = train(CELL, "digits", "quick(epochs=1,rate=1e-30,decay=0.0,average=0.0)", space=small, run=tmp_path / "a",
                  input_shape=(3, 8, 8))  # fmt: skip
    assert torch.equal(next(iter(get_weights(result).values())), first_weights[0])


def test_a_published_recipe_builds_the_network_that_it_was_published_for():
    darts = load_recipe("darts-cifar")
    space = add_recipe_options("darts(cells=5)", darts)
    assert dict(space.options) == {"cells": 5, "channels": 36, "auxiliary": True, "drop_path": 0.2}
    assert (
        format_space("darts(cells=5)", space)
        == "darts(cells=5,channels=36,auxiliary=True,drop_path=0.2)"
    )
    assert (
        add_recipe_options("nasbench201(cells=1)", darts).name == "nasbench201(cells=1,channels=36)"
    )
    assert add_recipe_options("darts", load_recipe("quick")).name == "darts"


def test_auxiliary_towers_are_trained_and_not_used_afterwards(tmp_path, data):
    space = load_space("darts(channels=2,cells=3,auxiliary=True,drop_path=0.2)")
    arch = space.sample(make_generator("toy"))
    assert isinstance(arch, Arch)
    result = train(
        arch,
        data,
        "quick(epochs=1,batch=21,average=0.0)",
        space=space,
        run=tmp_path / "a",
        input_shape=(1, 8, 8),
    )
    assert result.model is not None
    start = space.build(arch, Task("x", (1, 8, 8), 3))
    assert any("auxiliary" in name for name in get_weights(result))
    assert set(get_weights(result)) == set(start.state_dict())
    assert result.model(torch.zeros(2, 1, 8, 8)).shape == (2, 3)


def test_digits_are_learned_by_a_small_cell(tmp_path):
    result = train(CELL, "digits", "quick(epochs=5,rate=0.3,crop=0,average=0.0)",
                  space="nasbench201(channels=4,cells=1)", run=tmp_path / "a", input_shape=(3, 8, 8))  # fmt: skip
    assert result.accuracy > 0.6


def test_every_augmentation_option_of_a_recipe_changes_the_weights(tmp_path, data):
    """Each option changes the weights."""
    plain = get_weights(train_toy(tmp_path / "plain", data, PLAIN))
    for i, option in enumerate(
        ("crop=1", "flip=True", "cutout=2", "mixup=0.4", "smoothing=0.3", "optimiser=adamw")
    ):
        name = option.partition("=")[0]
        recipe = PLAIN.replace("crop=0", option if name == "crop" else f"crop=0,{option}")
        assert not states_equal(get_weights(train_toy(tmp_path / f"{i}", data, recipe)), plain), (
            option
        )


def test_tensorboard_is_an_extra(tmp_path, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match="pip install tensorboard"):
        train_toy(tmp_path / "a", data, PLAIN, tensorboard=True, refit="all")
    # It was refused before the training without the test part.
    assert not (tmp_path / "a").exists()
    scalars = []
    closed = []

    class Writer:
        def __init__(self, folder: str) -> None:
            assert Path(folder) == tmp_path / "a" / "tensorboard"

        def add_scalar(self, name: str, value: float, epoch: int) -> None:
            scalars.append((name, epoch))

        def flush(self) -> None:
            pass

        def close(self) -> None:
            closed.append(len(scalars))

    monkeypatch.setitem(
        sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer)
    )
    train_toy(tmp_path / "a", data, PLAIN, tensorboard=True)
    assert closed == [len(scalars)]
    assert set(scalars) == {
        (name, epoch) for name in ("rate", "loss", "val_loss", "val_accuracy") for epoch in (1, 2)
    }


def test_of_several_processes_only_one_writes_for_tensorboard(tmp_path, data, monkeypatch):
    def refuse(folder: str) -> None:
        raise AssertionError(f"{folder} is written by every process")

    monkeypatch.setitem(
        sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=refuse)
    )
    fake_accelerate(monkeypatch, 1, 2)
    result = train_toy(tmp_path / "a", data, PLAIN, device="accelerate", tensorboard=True)
    assert result.end_reason == "epochs"


def test_the_command_for_a_winning_design_names_the_run_folder():
    recipe = load_recipe("ctr(epochs=1)")
    key = TrainingKey("runs/x", "", "dlrm", "clicks", recipe.to_document(), 3, "cpu")
    command = _format_command(key, recipe, Path("runs/y"))
    assert command.startswith("untrained train runs/x ")
    assert command.endswith("--seed 3 --run runs/y")


def test_a_table_sets_the_number_of_inputs(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    lines = ["a,b,c,label", *(f"{a:.3f},{b:.3f},{c:.3f},{int(a > 0)}" for a, b, c in rows)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines))
    model = nn.Linear(3, 1)
    for name, data in (("a", f"csv:{path}"), ("b", path)):
        result = train(
            model, data, "ctr(epochs=1)", run=tmp_path / name, data_root=tmp_path / "root"
        )
        assert sum(result.samples.values()) == 60
    with pytest.raises(UsageError, match="cannot read samples of"):
        train(nn.Linear(4, 1), path, run=tmp_path / "c", data_root=tmp_path / "root")
