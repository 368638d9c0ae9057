"""Warm-up: what is trained, with which numbers, and what becomes of it when somebody pulls the plug."""

from dataclasses import replace
from math import cos, pi

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.training.helpers import (
    PIXELS,
    TASK,
    WIDEST,
    Wide,
    alone,
    asked,
    checkpoint,
    digits,
    elastic,
    layers,
    same,
)
from untrained.data import DataSource, ImagePart
from untrained.engine import Worker
from untrained.errors import Unscorable, UsageError
from untrained.probe.guard import random_state
from untrained.seeds import derive_seed, make_generator, make_torch_generator
from untrained.training import warm_up
from untrained.training.warm_up import CandidateWarmUp, SupernetWeights, WarmUp
from untrained.training.warm_up_plan import WarmUpPlan
from untrained.types import Batch, Task

ARCH = elastic.parse("width=4")
TRAIN = len(digits().parts["train"])
HALF = TRAIN // 2 // 64  # batches of 64 in half of them


def begun(said, folder=None, on_progress=None, seed=0, space=elastic):
    return asked(said).prepare_weights(space, seed, "cpu", folder, on_progress)


# ---------------------------------------------------------------------------------------------------------- the dial


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("ten", "impossible share 'ten'; write 20% or 0.2"),
        ("0%", "a share is more than 0"),
        ("10%(pahts=any)", "no option of a warm-up is called 'pahts'; did you mean paths"),
        ("10%(paths=all)", "a warm-up has no paths 'all'; there are: uniform, any, sandwich, each"),
        ("10%(preset=nasreck)", "no preset of a warm-up is called 'nasreck'; did you mean nasrec"),
        (
            "10%(batch=2.5)",
            "a warm-up needs a whole number for batch, such as batch=128, not batch=2.5",
        ),
        ("10%(rate=fast)", "a warm-up needs a number for rate, such as rate=0.1, not rate=fast"),
        ("10%(rate=0)", "a rate above 0"),
        ("10%(passes=0)", "at least 1 pass"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line(said, answer):
    with pytest.raises(UsageError) as told:
        asked(said)
    assert answer in str(told.value)
    assert "\n" not in str(told.value)


def test_a_device_is_asked_for_when_something_is_trained():
    """Records of candidates that a GPU warmed up can be read where there is none."""
    there = asked("50%(paths=each)").prepare_weights(elastic, 0, "cuda:77", None, None)
    assert there.init == begun("50%(paths=each)").init
    with pytest.raises(UsageError, match="device 'cuda:77' cannot be used"):
        asked("50%(paths=uniform)").prepare_weights(elastic, 0, "cuda:77", None, None)


def test_a_share_is_whole_batches_and_no_leftover():
    assert (asked("5%").batch_size, asked("5%").steps) == (
        TRAIN // 20,
        1,
    )  # fewer than a batch: as many as there are
    assert (asked("50%").batch_size, asked("50%").steps) == (128, TRAIN // 2 // 128)
    assert asked("50%(passes=3)").steps == 3 * asked("50%").steps
    assert asked("100%(batch=64)").steps == TRAIN // 64
    seen = [len(batch) for batch in asked("50%(passes=2,batch=200)").iterate_batches("cpu", "any")]
    assert seen == [200] * 2 * (TRAIN // 2 // 200)


def test_every_pass_sees_the_same_samples_and_other_chances_see_others():
    batches = list(asked("20%(passes=2,batch=100)").iterate_batches("cpu", "a"))
    assert torch.equal(batches[0].inputs, batches[2].inputs)
    other = next(asked("20%(batch=100)").iterate_batches("cpu", "b"))
    assert not torch.equal(batches[0].inputs, other.inputs)
    assert batches[0].inputs.is_contiguous()


def test_the_rate_of_a_cosine_rises_over_a_tenth_of_the_steps_and_falls_to_nothing():
    plan = WarmUpPlan(rate=2.0, schedule="cosine")
    assert [plan.rate_at(t, 20) for t in (0, 1)] == [1.0, 2.0]
    assert [plan.rate_at(t, 20) for t in (2, 11, 19)] == pytest.approx(
        [2.0, 1.0, 1 + cos(pi * 17 / 18)]
    )
    assert WarmUpPlan(rate=2.0).rate_at(7, 20) == 2.0


def test_tables_have_the_schedule_of_nasrec_unless_another_is_named():
    task = Task("clicks", (3,), 1, "bce")
    part = ImagePart(
        torch.zeros(1000, 1, 1, 3, dtype=torch.uint8),
        torch.zeros(1000),
        torch.zeros(3),
        torch.ones(3),
    )
    source = DataSource(
        task, lambda n, g: Batch(torch.zeros(n, 3), torch.zeros(n)), lambda: {"train": part}
    )
    usual = WarmUp.parse("1%", source).plan
    assert (usual.paths, usual.rate, usual.batch, usual.optimiser, usual.schedule) == (
        "any", 0.12, 512, "adagrad", "cosine",
    )  # fmt: skip
    assert WarmUp.parse("1%(preset=vision)", source).plan == WarmUpPlan()
    assert asked("1%").plan == WarmUpPlan()
    assert asked("1%(preset=nasrec,rate=0.5)").plan == WarmUpPlan(
        "any", 0.5, 512, 1, "adagrad", "cosine"
    )


def test_the_loss_is_that_of_the_task():
    """Logits z = 0 of clicks: binary cross entropy ln 2; of ten classes: ln 10."""
    rows = Batch(torch.zeros(6, PIXELS), torch.tensor([0.0, 1.0] * 3))
    zero = nn.Linear(PIXELS, 1)
    nn.init.zeros_(zero.weight), nn.init.zeros_(zero.bias)
    clicks = WarmUp(0.1, WarmUpPlan(), digits().parts["train"], Task("clicks", (PIXELS,), 1, "bce"))
    assert float(clicks.compute_loss(zero, rows).detach()) == pytest.approx(0.6931472, rel=1e-6)
    zero = nn.Linear(PIXELS, 10)
    nn.init.zeros_(zero.weight), nn.init.zeros_(zero.bias)
    assert float(
        asked("1%").compute_loss(zero, Batch(rows.inputs, torch.arange(6))).detach()
    ) == pytest.approx(2.3025851)


# ------------------------------------------------------------------------------------------------------ what is trained


def first_batch(said, *chance):
    warm = asked(said)
    return next(
        warm.part.batches(warm.batch_size, make_torch_generator("warm-up", "order", *chance))
    )


def nesterov(weights, gradients, rate=0.1):
    """The first step with decay 5e-4, after the gradient was clipped at norm 5: w - rate (g + 0.9 g)."""
    norm = float(torch.cat([g.flatten() for g in gradients]).norm())
    clipped = [g * min(1.0, 5 / (norm + 1e-6)) for g in gradients]
    return [w - rate * 1.9 * (g + 5e-4 * w) for w, g in zip(weights, clipped, strict=True)]


def test_a_step_of_the_supernet_is_a_step_of_its_leading_neurons():
    """By autograd on slices of the weights: gradients of a path reach the neurons it has, and decay reaches all."""
    name, width = (
        elastic.name,
        int(elastic.sample(make_generator("warm-up", "paths", elastic.name, 5, 0))["width"]),
    )
    assert width < WIDEST, "choose another seed: a path that is the whole proves nothing"
    with random_state(derive_seed("warm-up", "weights", name, 5)):
        start = [p.detach().clone().requires_grad_() for p in layers(WIDEST).parameters()]
    w1, b1, w2, b2 = start
    batch = first_batch("10%", name, 5)
    hidden = F.relu(F.linear(batch.inputs.flatten(1), w1[:width], b1[:width]))
    F.cross_entropy(F.linear(hidden, w2[:, :width], b2), batch.targets).backward()
    expected = nesterov([w.detach() for w in start], [w.grad for w in start])
    found = begun("10%", seed=5)
    assert isinstance(found, SupernetWeights)
    for ours, theirs in zip(found.weights.values(), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_candidates_without_a_supernet_are_trained_one_by_one():
    found = begun("10%", space=alone)
    assert isinstance(found, CandidateWarmUp)
    arch, model = alone.parse("width=4"), layers(4)
    start = [p.detach().clone() for p in model.parameters()]
    batch = first_batch("10%", "alone", arch, 3)
    loss = F.cross_entropy(model(batch.inputs), batch.targets)
    expected = nesterov(start, torch.autograd.grad(loss, list(model.parameters())))
    found.open(lambda: None, "cpu")(model, arch, 3)
    for ours, theirs in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), theirs)
        assert ours.grad is None
    assert isinstance(begun("10%(paths=each)"), CandidateWarmUp)


def test_candidates_inherit_copies_of_the_weights():
    start = begun("10%")
    warm = start.open(lambda: elastic.supernet(TASK), "cpu")
    examiner = Worker(
        lambda arch: elastic.build(arch, TASK), (), TASK.loss, {}, prepare_weights=warm
    )
    model = examiner.build_network(ARCH, 0, start.init)
    torch.testing.assert_close(
        model[1].weight.detach(), start.weights["body.1.weight"][:4], rtol=0, atol=0
    )
    torch.testing.assert_close(
        model[3].weight.detach(), start.weights["body.3.weight"][:, :4], rtol=0, atol=0
    )
    with torch.no_grad():
        model[1].weight.zero_()
    again = examiner.build_network(ARCH, 1, start.init)  # another seed has the same weights
    torch.testing.assert_close(
        again[1].weight.detach(), start.weights["body.1.weight"][:4], rtol=0, atol=0
    )
    cold = examiner.build_network(ARCH, 0)
    assert not torch.equal(cold[1].weight, again[1].weight)


def test_a_step_is_clipped_at_norm_5_and_leaves_no_gradient():
    model = nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    model.weight.grad = torch.tensor([[30.0, 40.0]])
    warm_up._update_weights(torch.optim.SGD(model.parameters(), lr=1.0), model, rate=0.1)
    torch.testing.assert_close(model.weight.detach(), before - 0.1 * torch.tensor([[3.0, 4.0]]))
    assert model.weight.grad is None


@pytest.mark.parametrize("paths", ["uniform", "any", "sandwich", "each"])
def test_a_warm_up_learns(paths):
    """The loss of the widest network on what was not seen falls below that of guessing, ln 10."""
    space = alone if paths == "each" else elastic
    start, arch, model = (
        begun(f"100%(paths={paths},batch=32)", space=space),
        space.parse("width=6"),
        layers(6),
    )
    start.open(lambda: elastic.supernet(TASK), "cpu")(model, arch, 0)
    batch = next(digits().parts["val"].batches(1000))
    assert float(F.cross_entropy(model(batch.inputs), batch.targets).detach()) < 2.0


def test_a_training_that_diverges_is_a_failure_of_the_candidate_and_stops_a_supernet():
    model = layers(4)
    with pytest.raises(Unscorable, match=r"nan: its warm-up diverged at step \d+ of \d+$") as told:
        begun("100%(rate=1e30,batch=64)", space=alone).open(lambda: None, "cpu")(
            model, alone.parse("width=4"), 0
        )
    assert told.value.kind == "nan"
    lower = r"100%\(rate=1e\+29,batch=64\)"  # all else is as it was said
    with pytest.raises(
        UsageError, match=rf"supernet diverged at step \d+; try --warm-up '{lower}'"
    ):
        begun("100%(rate=1e30,batch=64)")


def test_subnets_with_weights_of_their_own_cannot_warm_up_a_supernet():
    class Copies(nn.Module):
        def __init__(self, task):
            super().__init__()
            self.body = layers(2)

        def subnet(self, arch):
            return layers(2)

    with pytest.raises(UsageError, match=r"weights of their own.*paths=each"):
        begun("10%", space=replace(elastic, hooks=replace(elastic.hooks, supernet=Copies)))


# --------------------------------------------------------------------------------------------------------- checkpoints


class PulledError(Exception):
    pass


def test_a_warm_up_that_was_stopped_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir(), broken.mkdir()
    said = "50%(paths=sandwich,batch=64)"
    expected = begun(said, whole)
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 0.0)

    def pull(progress):
        if progress.done == 4:
            raise PulledError

    with pytest.raises(PulledError):
        begun(said, broken, pull)
    assert checkpoint(broken)["step"] == 4
    told = []
    found = begun(said, broken, lambda progress: told.append((progress.done, progress.total)))
    assert told == [(k, HALF) for k in range(4, HALF + 1)]
    assert same(checkpoint(broken), checkpoint(whole))
    assert same({"state": found.weights}, {"state": expected.weights})
    assert found.seconds > 0
    assert not list(broken.glob("*.part"))
    finished = []
    again = begun(said, broken, lambda progress: finished.append(progress.done))
    assert (finished, again.seconds) == (
        [HALF],
        found.seconds,
    )  # nothing is left to do, and nothing is charged twice
    assert same({"state": again.weights}, {"state": expected.weights})


def test_a_finished_warm_up_is_read_where_its_device_is_not(tmp_path, monkeypatch):
    expected = begun("10%", tmp_path)
    monkeypatch.setattr(warm_up, "check_device", lambda device: pytest.fail(f"asked for {device}"))
    assert same({"state": begun("10%", tmp_path).weights}, {"state": expected.weights})


class Drowsy(Wide):
    """Drops half of what it was shown."""

    def subnet(self, arch):
        return nn.Sequential(nn.Dropout(), super().subnet(arch)).train(self.training)


def test_what_networks_draw_at_random_is_drawn_again_as_before(tmp_path, monkeypatch):
    """Dropout in step 2 of a sitting that goes on is that of the undisturbed one, whatever was drawn meanwhile."""
    space = replace(elastic, hooks=replace(elastic.hooks, supernet=Drowsy))
    expected = begun("30%(batch=128)", space=space)
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 0.0)

    def pull(progress):
        if progress.done == 2:
            raise PulledError

    with pytest.raises(PulledError):
        begun("30%(batch=128)", tmp_path, pull, space=space)
    torch.rand(17)
    assert same(
        {"state": begun("30%(batch=128)", tmp_path, space=space).weights},
        {"state": expected.weights},
    )
    assert not same(
        {"state": begun("30%(batch=128)").weights}, {"state": expected.weights}
    )  # it did drop something


def test_ctrl_c_is_one_line_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 0.0)

    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(
        UsageError, match="stopped by Ctrl-C while warming up; run the same command to resume"
    ):
        begun("50%(batch=64)", tmp_path, stop)
    assert checkpoint(tmp_path)["step"] == 2
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 1e9)
    with pytest.raises(
        UsageError, match="run the same command to resume"
    ):  # from the one that was found
        begun("50%(batch=64)", tmp_path, stop)


def test_ctrl_c_before_the_first_checkpoint_promises_nothing(tmp_path):
    def stop(progress):
        if progress.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(
        UsageError, match=r"^stopped by Ctrl-C while warming up; nothing was saved yet$"
    ):
        begun("50%(batch=64)", tmp_path, stop)
    assert not list(tmp_path.iterdir())
    begun("10%", tmp_path)  # what another warm-up left is no use to this one
    with pytest.raises(UsageError, match=r"nothing was saved yet$"):
        begun("50%(batch=64)", tmp_path, stop)
    with pytest.raises(UsageError, match=r"^stopped by Ctrl-C while warming up$"):
        begun("50%(batch=64)", None, stop)


def test_the_checkpoint_of_another_warm_up_is_not_used_and_a_damaged_one_is_refused(tmp_path):
    first = begun("10%", tmp_path)
    second = begun("10%(rate=0.2)", tmp_path)
    assert second.init != first.init
    assert same({"state": second.weights}, {"state": begun("10%(rate=0.2)").weights})
    (tmp_path / "warmup.pt").write_bytes(b"nonsense")
    with pytest.raises(
        UsageError, match=r"warmup.pt cannot be read .*; delete it to repeat the warm-up"
    ):
        begun("10%", tmp_path)


def test_everything_that_decides_the_weights_is_in_their_name():
    inits = [
        begun("10%").init,
        begun("20%").init,
        begun("10%(batch=64)").init,
        begun("10%(paths=any)").init,
        begun("10%", seed=1).init,
        begun("10%(paths=each)").init,
        WarmUp.parse(
            "10%", DataSource(TASK, digits().draw, lambda: {"train": digits().parts["val"]})
        ).describe(),
    ]
    assert len(set(inits)) == len(inits)
    assert begun("10%").init == inits[0]
    assert inits[0].startswith("warm-up(10%,paths=uniform,rate=0.1,batch=128,")
    assert "seed" not in inits[5]  # it is that of each record
