"""What a training does: the same twice, the step by its formula, when it stops, and who is asked when."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.training.toys import Counted, archive, busy, make_rows, same, trained, use, weights
from untrained import Arch, Probe, load_space, proxy, search
from untrained.data.parts import ImagePart
from untrained.errors import UsageError
from untrained.seeds import make_generator
from untrained.training.batches import BatchLoader
from untrained.training.ema import WeightAverage
from untrained.training.loop import Training
from untrained.training.network import DropPathSchedule, make_loss, make_optimiser
from untrained.training.recipes import load_recipe
from untrained.types import Task
from untrained.workflows.score import score_networks
from untrained.workflows.train import train
from untrained.workflows.train_subject import add_recipe_options, format_space

TASK = Task("stripes", (1, 6, 6), 3)
PLAIN = "quick(epochs=2,batch=10,average=0.0,crop=0)"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return archive(tmp_path)


def test_the_same_call_gives_the_same_weights_and_another_seed_others(tmp_path, data):
    model = busy()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    first = trained(tmp_path / "a", data, what=model)
    assert torch.equal(torch.get_rng_state(), state)
    assert same(before, dict(model.state_dict()))  # the user's module is left alone
    torch.manual_seed(5)
    assert same(weights(trained(tmp_path / "b", data)), weights(first))
    assert not same(weights(trained(tmp_path / "c", data, seed=1)), weights(first))


def test_steps_are_not_replayed_on_a_cpu(tmp_path, data):
    net, replay = nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), PLAIN.replace(")", ",graphs=True)")
    launched = trained(tmp_path / "a", data, PLAIN, what=net)
    assert same(weights(launched), weights(trained(tmp_path / "b", data, replay, what=net)))
    assert (DropPathSchedule(busy()).is_active, DropPathSchedule(net).is_active) == (True, False)


def test_what_can_be_learned_is_learned_and_everything_is_written_down(tmp_path, data):
    found = trained(tmp_path / "a", data, "quick(epochs=12,batch=10,crop=0)")
    assert found.accuracy == 1.0
    assert found.samples == {"train": 42, "val": 9, "test": 9}
    facts = json.loads((tmp_path / "a" / "train.json").read_text())
    assert (facts["accuracy"], facts["key"]["recipe"]["epochs"]) == (1.0, 12)
    assert [row["epoch"] for row in facts["curve"]] == list(range(1, 13))
    assert facts["curve"][-1]["loss"] < facts["curve"][0]["loss"]
    assert {"python", "untrained", "torch"} <= facts["versions"].keys()
    assert facts["confusion"] == [[3, 0, 0], [0, 3, 0], [0, 0, 3]]
    assert facts["mistakes"] == []
    assert facts["samples_per_second"] > 0
    state = torch.load(tmp_path / "a" / "model.pt", weights_only=True)
    assert same(state, weights(found))


def test_the_test_part_is_read_once_and_by_the_weights_that_validation_chose(tmp_path, monkeypatch):
    parts = {
        "train": make_rows(64),
        "val": make_rows(32, seed=1),
        "test": make_rows(32, seed=2),
    }
    use(monkeypatch, Task("rows", (4,), 2), parts)
    found = train(
        nn.Linear(4, 2), "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a"
    )
    assert parts["test"].passes == 1
    assert parts["val"].passes == 4 * 2  # the weights and their average, after every epoch
    assert (parts["train"].passes, all(parts["train"].orders)) == (4, True)
    assert found.accuracy > 0.8
    assert found.best["accuracy"] == max(row["val_accuracy"] for row in found.curve)
    train(nn.Linear(4, 2), "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a")
    assert parts["test"].passes == 1


def test_of_equal_epochs_the_last_is_chosen_and_its_average_before_its_weights(
    tmp_path, monkeypatch
):
    easy = Counted(torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]] * 16), torch.tensor([0, 1] * 16))
    use(monkeypatch, Task("rows", (4,), 2), {"train": easy, "val": easy, "test": easy})
    model = nn.Linear(4, 2)
    model.weight.data = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
    found = train(model, "rows", "quick(epochs=3,batch=16,average=0.9)", run=tmp_path / "a")
    assert {row["val_accuracy"] for row in found.curve} == {1.0}
    assert (found.best["epoch"], found.best["kind"]) == (3, "average")


def test_an_average_that_is_worse_is_not_chosen(tmp_path, monkeypatch):
    parts = {
        "train": make_rows(64),
        "val": make_rows(32, seed=1),
        "test": make_rows(32, seed=2),
    }
    use(monkeypatch, Task("rows", (4,), 2), parts)
    monkeypatch.setattr(
        WeightAverage, "update", lambda self, step: None
    )  # it stays with the first weights, which are wrong
    model = nn.Linear(4, 2)
    model.weight.data = torch.tensor([[0.1, 0, 0, 0], [-0.1, 0, 0, 0]])
    found = train(model, "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a")
    assert (found.best["kind"], found.best["epoch"]) == ("weights", 4)
    assert found.accuracy > 0.8


def test_the_weights_that_were_chosen_are_judged_and_kept(tmp_path, monkeypatch):
    """What is learned is wrong, so the average, which stays with the first weights, is best: they come back."""
    right, val = make_rows(64), make_rows(32, seed=1)
    parts = {
        "train": Counted(right.inputs, 1 - right.targets),
        "val": val,
        "test": make_rows(32, seed=2),
    }
    use(monkeypatch, Task("rows", (4,), 2), parts)
    monkeypatch.setattr(WeightAverage, "update", lambda self, step: None)
    model = nn.Linear(4, 2)
    model.weight.data, model.bias.data = (
        torch.tensor([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]]),
        torch.zeros(2),
    )
    found = train(model, "rows", "quick(epochs=4,batch=16,average=0.9)", run=tmp_path / "a")
    assert (found.best["kind"], found.accuracy) == ("average", 1.0)
    assert same(weights(found), dict(model.state_dict()))
    assert same(
        torch.load(tmp_path / "a" / "model.pt", weights_only=True), dict(model.state_dict())
    )


def test_it_stops_when_validation_no_longer_rises(tmp_path, monkeypatch):
    """Labels that nothing can tell apart: the accuracy of the first epoch is never beaten."""
    same_rows = Counted(torch.zeros(32, 4), torch.arange(32) % 2)
    use(
        monkeypatch,
        Task("rows", (4,), 2),
        {"train": same_rows, "val": same_rows, "test": same_rows},
    )
    found = train(
        nn.Linear(4, 2), "rows", "quick(epochs=50,batch=16)", patience=3, run=tmp_path / "a"
    )
    assert (found.ended, len(found.curve)) == ("patience", 4)
    assert not (tmp_path / "a" / "checkpoint.pt").exists()


def test_a_training_that_diverges_says_so_in_one_line_and_frees_the_folder(tmp_path, data):
    with pytest.raises(UsageError) as caught:
        trained(
            tmp_path / "a",
            data,
            "quick(epochs=3,batch=10,rate=1e30,clip=0.0,warm_up=0.0)",
            checkpoint_every=1,
        )
    assert "diverged: the loss of epoch 1 is" in str(caught.value)
    usual_rate = "quick(epochs=3,batch=10,warm_up=0.0,clip=0.0)"  # a tenth, 1e29, would diverge too
    assert f"--recipe '{usual_rate}'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert trained(tmp_path / "a", data).ended == "epochs"


def test_rows_of_a_table_learn_by_yes_and_no(tmp_path, monkeypatch):
    parts: dict[str, Any] = {
        name: make_rows(64, seed=i) for i, name in enumerate(("train", "val", "test"))
    }
    use(monkeypatch, Task("rows", (4,), 1, "bce"), parts)
    found = train(nn.Linear(4, 1), "rows", "quick(epochs=6,batch=16,rate=0.5)", run=tmp_path / "a")
    assert found.auc > 0.9
    assert found.accuracy is None


WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "name the data to train on": (busy(), {"data": None}),
    "returns (2, 5), but npz:stripes.npz needs (2, 3)": (
        nn.Sequential(nn.Flatten(), nn.Linear(36, 5)),
        {},
    ),
    "cannot read samples of (1, 6, 6)": (nn.Sequential(nn.Flatten(), nn.Linear(35, 3)), {}),
    "nothing to learn": (nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).requires_grad_(False), {}),
    "photos has nothing to learn from": (busy(), {"data": "photos"}),
    "device 'gpu' cannot be used": (busy(), {"device": "gpu"}),
    "is not a run folder": (".", {}),
    "cannot score a int": (3, {}),
}


@pytest.mark.parametrize("why", WRONG)
def test_wrong_requests_are_answered_in_one_line(tmp_path, data, why):
    what, options = WRONG[why]
    asked = {"data": data, "input_shape": (1, 6, 6), "run": tmp_path / "run"} | options
    with pytest.raises(UsageError) as caught:
        train(what, **asked)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------------------------------ the pieces


def test_the_loss_smooths_labels_and_weighs_the_auxiliary_tower():
    """Smoothed by s over K classes, the target is (1 - s) on the label and s / K everywhere."""
    outputs, beside, labels = torch.randn(4, 3), torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    target = 0.9 * F.one_hot(labels, 3) + 0.1 / 3
    main, tower = (-(target * out.log_softmax(1)).sum(1).mean() for out in (outputs, beside))
    loss = make_loss(TASK, load_recipe("quick(smoothing=0.1,auxiliary=0.4)"))
    torch.testing.assert_close(loss(outputs, labels), main)
    torch.testing.assert_close(loss((beside, outputs), labels), main + 0.4 * tower)
    torch.testing.assert_close(
        loss((torch.randn(4, 8), outputs), labels), main
    )  # features, not another answer
    torch.testing.assert_close(
        loss(outputs, F.one_hot(labels, 3).float()), main
    )  # as mixup gives them
    with pytest.raises(UsageError, match="cannot train with the loss 'mse'"):
        make_loss(Task("x", (1,), 1, "mse"), load_recipe("quick"))


def test_the_average_follows_its_formula():
    """d = min(0.9, (1 + n) / (10 + n)): 0.1, 2/11, 3/12, ... until 0.9 is less."""
    model = nn.BatchNorm1d(1)
    model.weight.data.fill_(0.0)
    average, expected = WeightAverage(model, 0.9), 0.0
    for step in range(200):
        model.weight.data.fill_(float(step % 7))
        model.num_batches_tracked.fill_(step)
        average.update(step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * (step % 7)
        assert float(average.model.weight.detach()) == pytest.approx(expected, rel=1e-5)
    assert int(average.model.num_batches_tracked) == 199


def test_what_has_two_names_is_averaged_once_and_parts_of_one_memory_each():
    """From 0 to 1 with d = 1/2 it is 1/2, from 0 to -2 it is -1."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
            self.b.weight = self.a.weight
            whole = torch.zeros(4)
            for name, buffer in {
                "left": whole[:2],
                "right": whole[2:],
                "again": whole[2:],
            }.items():
                self.register_buffer(name, buffer)

    model = Shared()
    model.a.weight.data.zero_()
    average = WeightAverage(model, 0.5)
    model.a.weight.data.fill_(1.0), model.left.fill_(1.0), model.right.fill_(-2.0)
    average.update(1000)
    found = {name: tensor.flatten().tolist() for name, tensor in average.model.state_dict().items()}
    halves = {"left": [0.5, 0.5], "right": [-1.0, -1.0], "again": [-1.0, -1.0]}
    assert found == {"a.weight": [0.5], "b.weight": [0.5], **halves}


def test_norms_and_biases_decay_only_where_the_recipe_says_so():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    for said, others in (("quick(decay=0.1)", 0.1), ("quick(decay=0.1,decay_all=False)", 0.0)):
        groups = make_optimiser(model, load_recipe(said)).param_groups
        found = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
        assert found[id(model[0].weight)] == 0.1
        assert {found[id(p)] for p in (model[0].bias, model[1].weight, model[1].bias)} == {others}
    assert type(make_optimiser(model, load_recipe("quick(optimiser=adamw)"))).__name__ == "AdamW"


def test_drop_path_grows_to_what_the_network_was_built_with():
    model = load_space("darts(channels=4,cells=3,drop_path=0.2)")
    network = model.build(model.sample(make_generator("toy")))
    paths = DropPathSchedule(network)
    paths.scale_rates(0.25)
    assert network.drop_path == pytest.approx(0.05)
    paths.scale_rates(1.0)
    assert network.drop_path == 0.2
    assert DropPathSchedule(nn.Linear(1, 1)).built_rates == []


def test_every_epoch_sees_each_picture_once_in_another_order_and_an_incomplete_batch_is_left_out():
    part = ImagePart(
        torch.arange(23, dtype=torch.uint8).reshape(23, 1, 1, 1),
        torch.arange(23),
        torch.zeros(1),
        torch.ones(1),
    )
    feed = BatchLoader.open(
        part, Task("x", (1, 1, 1), 23), load_recipe("quick(batch=5,crop=0)"), "cpu", seed=3
    )
    assert feed.steps_per_epoch == 4
    epochs = [
        torch.cat([batch.targets for batch in feed.training_batches(epoch)]).tolist()
        for epoch in (0, 1)
    ]
    assert [len(set(seen)) for seen in epochs] == [20, 20]
    assert epochs[0] != epochs[1]
    rest = torch.cat([batch.targets for batch in feed.training_batches(0, first_step=3)]).tolist()
    assert rest == epochs[0][15:]
    moved = BatchLoader.open(
        part, Task("x", (1, 1, 1), 23), load_recipe("quick(batch=23,crop=1)"), "cpu", seed=3
    )
    black = [
        tuple((next(moved.training_batches(epoch)).inputs == 0).flatten().tolist())
        for epoch in range(4)
    ]
    assert len(set(black)) == 4  # every step is distorted in its own way
    batch = next(feed.training_batches(0))
    torch.testing.assert_close(batch.inputs.flatten() * 255, batch.targets.float())
    assert torch.cat([batch.targets for batch in feed.evaluation_batches()]).tolist() == list(
        range(23)
    )


def test_a_step_is_that_of_the_recipe(tmp_path, data, monkeypatch):
    """One step of SGD without momentum's past: w - rate (g + decay w), the gradient clipped, in training mode."""
    seen: list[Any] = []
    learn = Training.train_step

    def once(self: Training, batch: Any) -> None:
        before = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        learn(self, batch)
        seen.append(
            (before, {n: p.detach().clone() for n, p in self.model.named_parameters()}, batch)
        )
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "train_step", once)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    said = "quick(batch=10,crop=0,warm_up=0.0,rate=0.5,decay=0.01,nesterov=False,clip=0.1,smoothing=0.0)"
    with pytest.raises(UsageError):
        trained(tmp_path / "a", data, said, what=model)
    before, after, batch = seen[0]
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


def test_an_architecture_by_its_string_as_an_arch_or_from_a_run_folder(tmp_path):
    small = "nasbench201(channels=2,cells=1)"
    ask: dict[str, Any] = {
        "data": "digits",
        "recipe": "quick(epochs=1,batch=256)",
        "input_shape": (3, 8, 8),
    }
    by_text = train(CELL, space=small, run=tmp_path / "a", **ask)
    home = load_space(small)
    by_arch = train(home.parse(CELL), space=home, run=tmp_path / "b", **ask)
    assert same(weights(by_text), weights(by_arch))
    assert (by_text.key.space, by_text.key.arch) == (small, CELL)
    found = search(small, "params", budget=3, run=tmp_path / "c", workers=1, input_size=8)
    best = train(tmp_path / "c", recipe=ask["recipe"])
    assert json.loads((tmp_path / "c" / "train.json").read_text())["task"]["input_shape"] == [
        3,
        8,
        8,
    ]
    assert (best.key.arch, best.key.data, best.folder) == (
        str(found.best),
        "digits",
        str(tmp_path / "c"),
    )
    assert f"untrained train {tmp_path / 'c'}" in best.command


def test_it_starts_from_the_weights_that_were_judged(tmp_path):
    seen = []

    @proxy()
    def first(probe: Probe) -> float:
        seen.append(next(probe.model.parameters()).detach().clone())
        return 0.0

    small = load_space("nasbench201(channels=2,cells=1)")
    score_networks(small.parse(CELL), first, "digits", space=small)
    found = train(CELL, "digits", "quick(epochs=1,rate=1e-30,decay=0.0,average=0.0)", space=small, run=tmp_path / "a",
                  input_shape=(3, 8, 8))  # fmt: skip
    assert torch.equal(next(iter(weights(found).values())), seen[0])


def test_a_published_recipe_builds_the_network_that_it_was_published_for():
    darts = load_recipe("darts-cifar")
    home = add_recipe_options("darts(cells=5)", darts)
    assert dict(home.options) == {"cells": 5, "channels": 36, "auxiliary": True, "drop_path": 0.2}
    assert (
        format_space("darts(cells=5)", home)
        == "darts(cells=5,channels=36,auxiliary=True,drop_path=0.2)"
    )
    assert (
        add_recipe_options("nasbench201(cells=1)", darts).name == "nasbench201(cells=1,channels=36)"
    )
    assert add_recipe_options("darts", load_recipe("quick")).name == "darts"


def test_auxiliary_towers_are_trained_and_asked_for_nothing_later(tmp_path, data):
    home = load_space("darts(channels=2,cells=3,auxiliary=True,drop_path=0.2)")
    arch = home.sample(make_generator("toy"))
    assert isinstance(arch, Arch)
    found = train(
        arch,
        data,
        "quick(epochs=1,batch=21,average=0.0)",
        space=home,
        run=tmp_path / "a",
        input_shape=(1, 8, 8),
    )
    assert found.model is not None
    start = home.build(arch, Task("x", (1, 8, 8), 3))
    assert any("auxiliary" in name for name in weights(found))
    assert set(weights(found)) == set(start.state_dict())
    assert found.model(torch.zeros(2, 1, 8, 8)).shape == (2, 3)


def test_digits_are_learned_by_a_small_cell(tmp_path):
    found = train(CELL, "digits", "quick(epochs=5,rate=0.3,crop=0,average=0.0)",
                  space="nasbench201(channels=4,cells=1)", run=tmp_path / "a", input_shape=(3, 8, 8))  # fmt: skip
    assert found.accuracy > 0.6


def test_the_options_of_a_recipe_that_touch_pictures_are_used(tmp_path, data):
    """Each option changes the weights."""
    plain = weights(trained(tmp_path / "plain", data, PLAIN))
    for i, option in enumerate(
        ("crop=1", "flip=True", "cutout=2", "mixup=0.4", "smoothing=0.3", "optimiser=adamw")
    ):
        name = option.partition("=")[0]
        said = PLAIN.replace("crop=0", option if name == "crop" else f"crop=0,{option}")
        assert not same(weights(trained(tmp_path / f"{i}", data, said)), plain), option


def test_tensorboard_is_an_extra(tmp_path, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match="pip install tensorboard"):
        trained(tmp_path / "a", data, PLAIN, tensorboard=True)
    told = []

    class Writer:
        def __init__(self, folder: str) -> None:
            assert Path(folder) == tmp_path / "a" / "tensorboard"

        def add_scalar(self, name: str, value: float, at: int) -> None:
            told.append((name, at))

        def flush(self) -> None:
            pass

    monkeypatch.setitem(
        sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer)
    )
    trained(tmp_path / "a", data, PLAIN, tensorboard=True)
    assert set(told) == {
        (name, at) for name in ("rate", "loss", "val_loss", "val_accuracy") for at in (1, 2)
    }
