"""Warm-up: what is trained, by which formula, and how an interrupted warm-up resumes."""

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
    checkpoints_equal,
    elastic,
    load_digits,
    make_layers,
    parse_warm_up,
    read_checkpoint,
)
from untrained.data import DataSource, ImagePart
from untrained.engine import Worker
from untrained.errors import Interrupted, Unscorable, UsageError
from untrained.probe.guard import random_state
from untrained.seeds import derive_seed, make_generator, make_torch_generator
from untrained.training import warm_up
from untrained.training.warm_up import CandidateWarmUp, SupernetWeights, WarmUp
from untrained.training.warm_up_plan import WarmUpPlan
from untrained.types import Batch, Task

ARCH = elastic.parse("width=4")
TRAIN = len(load_digits().parts["train"])
HALF = TRAIN // 2 // 64  # number of batches of 64 in half of the training samples


def prepare_weights(text, folder=None, on_progress=None, seed=0, space=elastic):
    return parse_warm_up(text).prepare_weights(space, seed, "cpu", folder, on_progress)


# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ten", "invalid share 'ten'; write 20% or 0.2"),
        ("0%", "a share is more than 0"),
        ("10%(pahts=any)", "no option of a warm-up is called 'pahts'; did you mean paths"),
        ("10%(paths=all)", "a warm-up has no paths 'all'; available: uniform, any, sandwich, each"),
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
def test_a_wrong_warm_up_is_refused_in_one_line(text, message):
    with pytest.raises(UsageError) as caught:
        parse_warm_up(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_device_is_needed_only_for_training():
    """Records of candidates that were warmed up on a GPU can be read on a machine without one."""
    missing = parse_warm_up("50%(paths=each)").prepare_weights(elastic, 0, "cuda:77", None, None)
    assert missing.init == prepare_weights("50%(paths=each)").init
    with pytest.raises(UsageError, match="device 'cuda:77' cannot be used"):
        parse_warm_up("50%(paths=uniform)").prepare_weights(elastic, 0, "cuda:77", None, None)


def test_a_share_is_a_whole_number_of_batches():
    # A share that is smaller than a batch becomes one smaller batch.
    assert (parse_warm_up("5%").batch_size, parse_warm_up("5%").steps) == (TRAIN // 20, 1)
    assert (parse_warm_up("50%").batch_size, parse_warm_up("50%").steps) == (128, TRAIN // 2 // 128)
    assert parse_warm_up("50%(passes=3)").steps == 3 * parse_warm_up("50%").steps
    assert parse_warm_up("100%(batch=64)").steps == TRAIN // 64
    sizes = [
        len(batch)
        for batch in parse_warm_up("50%(passes=2,batch=200)").iterate_batches("cpu", "any")
    ]
    assert sizes == [200] * 2 * (TRAIN // 2 // 200)


def test_every_pass_has_the_same_samples_and_another_seed_has_others():
    batches = list(parse_warm_up("20%(passes=2,batch=100)").iterate_batches("cpu", "a"))
    assert torch.equal(batches[0].inputs, batches[2].inputs)
    other = next(parse_warm_up("20%(batch=100)").iterate_batches("cpu", "b"))
    assert not torch.equal(batches[0].inputs, other.inputs)
    assert batches[0].inputs.is_contiguous()


def test_the_cosine_rate_rises_over_a_tenth_of_the_steps_and_falls_to_zero():
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
    assert parse_warm_up("1%").plan == WarmUpPlan()
    assert parse_warm_up("1%(preset=nasrec,rate=0.5)").plan == WarmUpPlan(
        "any", 0.5, 512, 1, "adagrad", "cosine"
    )


def test_the_loss_is_the_loss_of_the_task():
    """With all logits zero, the binary cross entropy of clicks is ln 2, and that of ten classes is ln 10."""
    rows = Batch(torch.zeros(6, PIXELS), torch.tensor([0.0, 1.0] * 3))
    zero = nn.Linear(PIXELS, 1)
    nn.init.zeros_(zero.weight)
    nn.init.zeros_(zero.bias)
    clicks = WarmUp(
        0.1, WarmUpPlan(), load_digits().parts["train"], Task("clicks", (PIXELS,), 1, "bce")
    )
    assert float(clicks.compute_loss(zero, rows).detach()) == pytest.approx(0.6931472, rel=1e-6)
    zero = nn.Linear(PIXELS, 10)
    nn.init.zeros_(zero.weight)
    nn.init.zeros_(zero.bias)
    batch = Batch(rows.inputs, torch.arange(6))
    loss = float(parse_warm_up("1%").compute_loss(zero, batch).detach())
    assert loss == pytest.approx(2.3025851)


# ------------------------------------------------------------------------------------------------------ what is trained


def read_first_batch(text, *seed_parts):
    warm = parse_warm_up(text)
    return next(
        warm.part.batches(warm.batch_size, make_torch_generator("warm-up", "order", *seed_parts))
    )


def take_nesterov_step(weights, gradients, rate=0.1):
    """Return the weights after the first step, w - rate (g + 0.9 g), with decay 5e-4 and g clipped at norm 5."""
    norm = float(torch.cat([g.flatten() for g in gradients]).norm())
    clipped = [g * min(1.0, 5 / (norm + 1e-6)) for g in gradients]
    return [w - rate * 1.9 * (g + 5e-4 * w) for w, g in zip(weights, clipped, strict=True)]


def test_a_step_of_the_supernet_is_a_step_of_its_leading_neurons():
    """Compute the step with autograd on slices of the weights.

    The gradient reaches the neurons of the sampled path; weight decay reaches all neurons.
    """
    name = elastic.name
    path = elastic.sample(make_generator("warm-up", "paths", name, 5, 0))
    width = int(path["width"])
    assert width < WIDEST, "choose another seed: the path must be smaller than the supernet"
    with random_state(derive_seed("warm-up", "weights", name, 5)):
        start = [p.detach().clone().requires_grad_() for p in make_layers(WIDEST).parameters()]
    w1, b1, w2, b2 = start
    batch = read_first_batch("10%", name, 5)
    hidden = F.relu(F.linear(batch.inputs.flatten(1), w1[:width], b1[:width]))
    F.cross_entropy(F.linear(hidden, w2[:, :width], b2), batch.targets).backward()
    expected = take_nesterov_step([w.detach() for w in start], [w.grad for w in start])
    warmed_up = prepare_weights("10%", seed=5)
    assert isinstance(warmed_up, SupernetWeights)
    for ours, theirs in zip(warmed_up.weights.values(), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_candidates_without_a_supernet_are_trained_one_by_one():
    warm_up_each = prepare_weights("10%", space=alone)
    assert isinstance(warm_up_each, CandidateWarmUp)
    arch = alone.parse("width=4")
    model = make_layers(4)
    start = [p.detach().clone() for p in model.parameters()]
    batch = read_first_batch("10%", "alone", arch, 3)
    loss = F.cross_entropy(model(batch.inputs), batch.targets)
    expected = take_nesterov_step(start, torch.autograd.grad(loss, list(model.parameters())))
    warm_up_each.open(lambda: None, "cpu")(model, arch, 3)
    for ours, theirs in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), theirs)
        assert ours.grad is None
    assert isinstance(prepare_weights("10%(paths=each)"), CandidateWarmUp)


def test_candidates_inherit_copies_of_the_weights():
    start = prepare_weights("10%")
    warm = start.open(lambda: elastic.supernet(TASK), "cpu")
    worker = Worker(lambda arch: elastic.build(arch, TASK), (), TASK.loss, {}, prepare_weights=warm)
    model = worker.build_network(ARCH, 0, start.init)
    torch.testing.assert_close(
        model[1].weight.detach(), start.weights["body.1.weight"][:4], rtol=0, atol=0
    )
    torch.testing.assert_close(
        model[3].weight.detach(), start.weights["body.3.weight"][:, :4], rtol=0, atol=0
    )
    with torch.no_grad():
        model[1].weight.zero_()
    again = worker.build_network(ARCH, 1, start.init)  # another seed has the same weights
    torch.testing.assert_close(
        again[1].weight.detach(), start.weights["body.1.weight"][:4], rtol=0, atol=0
    )
    cold = worker.build_network(ARCH, 0)
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
    """The validation loss of the widest network falls below that of guessing, ln 10 = 2.3."""
    space = alone if paths == "each" else elastic
    start = prepare_weights(f"100%(paths={paths},batch=32)", space=space)
    arch = space.parse("width=6")
    model = make_layers(6)
    start.open(lambda: elastic.supernet(TASK), "cpu")(model, arch, 0)
    batch = next(load_digits().parts["val"].batches(1000))
    assert float(F.cross_entropy(model(batch.inputs), batch.targets).detach()) < 2.0


def test_a_diverged_candidate_is_a_failure_and_a_diverged_supernet_ends_the_run():
    model = make_layers(4)
    with pytest.raises(
        Unscorable, match=r"nan: its warm-up diverged at step \d+ of \d+$"
    ) as caught:
        prepare_weights("100%(rate=1e30,batch=64)", space=alone).open(lambda: None, "cpu")(
            model, alone.parse("width=4"), 0
        )
    assert caught.value.kind == "nan"
    lower = r"100%\(rate=1e\+29,batch=64\)"  # the other options stay
    with pytest.raises(
        UsageError, match=rf"supernet diverged at step \d+; try --warm-up '{lower}'"
    ):
        prepare_weights("100%(rate=1e30,batch=64)")


def test_subnets_with_weights_of_their_own_cannot_warm_up_a_supernet():
    class Copies(nn.Module):
        def __init__(self, task):
            super().__init__()
            self.body = make_layers(2)

        def subnet(self, arch):
            return make_layers(2)

    with pytest.raises(UsageError, match=r"weights of their own.*paths=each"):
        prepare_weights(
            "10%", space=replace(elastic, hooks=replace(elastic.hooks, supernet=Copies))
        )


# --------------------------------------------------------------------------------------------------------- checkpoints


class InterruptedWarmUpError(Exception):
    pass


def test_an_interrupted_warm_up_resumes_to_the_same_weights(tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    broken = tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    text = "50%(paths=sandwich,batch=64)"
    expected = prepare_weights(text, whole)
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 0.0)

    def interrupt(progress):
        if progress.done == 4:
            raise InterruptedWarmUpError

    with pytest.raises(InterruptedWarmUpError):
        prepare_weights(text, broken, interrupt)
    assert read_checkpoint(broken)["step"] == 4
    events = []
    resumed = prepare_weights(
        text, broken, lambda progress: events.append((progress.done, progress.total))
    )
    assert events == [(k, HALF) for k in range(4, HALF + 1)]
    assert checkpoints_equal(read_checkpoint(broken), read_checkpoint(whole))
    assert checkpoints_equal({"state": resumed.weights}, {"state": expected.weights})
    assert resumed.seconds > 0
    assert not list(broken.glob("*.part"))
    finished = []
    again = prepare_weights(text, broken, lambda progress: finished.append(progress.done))
    # Nothing is left to do, and no time is counted twice.
    assert (finished, again.seconds) == ([HALF], resumed.seconds)
    assert checkpoints_equal({"state": again.weights}, {"state": expected.weights})


def test_a_finished_warm_up_is_read_on_a_machine_without_its_device(tmp_path, monkeypatch):
    expected = prepare_weights("10%", tmp_path)
    monkeypatch.setattr(warm_up, "check_device", lambda device: pytest.fail(f"asked for {device}"))
    assert checkpoints_equal(
        {"state": prepare_weights("10%", tmp_path).weights}, {"state": expected.weights}
    )


class WithDropout(Wide):
    """Drops half of the pixels."""

    def subnet(self, arch):
        return nn.Sequential(nn.Dropout(), super().subnet(arch)).train(self.training)


def test_a_resumed_warm_up_repeats_its_random_numbers(tmp_path, monkeypatch):
    """Dropout in step 2 after resuming is that of an uninterrupted warm-up, whatever else was drawn meanwhile."""
    space = replace(elastic, hooks=replace(elastic.hooks, supernet=WithDropout))
    expected = prepare_weights("30%(batch=128)", space=space)
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 0.0)

    def interrupt(progress):
        if progress.done == 2:
            raise InterruptedWarmUpError

    with pytest.raises(InterruptedWarmUpError):
        prepare_weights("30%(batch=128)", tmp_path, interrupt, space=space)
    torch.rand(17)
    assert checkpoints_equal(
        {"state": prepare_weights("30%(batch=128)", tmp_path, space=space).weights},
        {"state": expected.weights},
    )
    # Dropout does change the weights.
    without_dropout = prepare_weights("30%(batch=128)")
    assert not checkpoints_equal({"state": without_dropout.weights}, {"state": expected.weights})


def test_ctrl_c_prints_one_line_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 0.0)

    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(
        Interrupted, match="stopped by Ctrl-C while warming up; run the same command to resume"
    ):
        prepare_weights("50%(batch=64)", tmp_path, stop)
    assert read_checkpoint(tmp_path)["step"] == 2
    monkeypatch.setattr(warm_up, "CHECKPOINT_SECONDS", 1e9)
    # The existing checkpoint can be resumed.
    with pytest.raises(Interrupted, match="run the same command to resume"):
        prepare_weights("50%(batch=64)", tmp_path, stop)


def test_ctrl_c_before_the_first_checkpoint_says_that_nothing_was_saved(tmp_path):
    def stop(progress):
        if progress.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(
        Interrupted, match=r"^stopped by Ctrl-C while warming up; nothing was saved yet$"
    ):
        prepare_weights("50%(batch=64)", tmp_path, stop)
    assert not list(tmp_path.iterdir())
    prepare_weights("10%", tmp_path)  # the checkpoint of another warm-up cannot be resumed
    with pytest.raises(Interrupted, match=r"nothing was saved yet$"):
        prepare_weights("50%(batch=64)", tmp_path, stop)
    with pytest.raises(Interrupted, match=r"^stopped by Ctrl-C while warming up$"):
        prepare_weights("50%(batch=64)", None, stop)


def test_the_checkpoint_of_another_warm_up_is_not_used_and_a_damaged_one_is_refused(tmp_path):
    first = prepare_weights("10%", tmp_path)
    second = prepare_weights("10%(rate=0.2)", tmp_path)
    assert second.init != first.init
    assert checkpoints_equal(
        {"state": second.weights}, {"state": prepare_weights("10%(rate=0.2)").weights}
    )
    (tmp_path / "warmup.pt").write_bytes(b"nonsense")
    with pytest.raises(
        UsageError, match=r"warmup.pt is damaged or was not written by untrained; delete it"
    ):
        prepare_weights("10%", tmp_path)


def test_everything_that_determines_the_weights_is_in_their_name():
    inits = [
        prepare_weights("10%").init,
        prepare_weights("20%").init,
        prepare_weights("10%(batch=64)").init,
        prepare_weights("10%(paths=any)").init,
        prepare_weights("10%", seed=1).init,
        prepare_weights("10%(paths=each)").init,
        WarmUp.parse(
            "10%",
            DataSource(TASK, load_digits().draw, lambda: {"train": load_digits().parts["val"]}),
        ).describe(),
    ]
    assert len(set(inits)) == len(inits)
    assert prepare_weights("10%").init == inits[0]
    assert inits[0].startswith("warm-up(10%,paths=uniform,rate=0.1,batch=128,")
    assert "seed" not in inits[5]  # each candidate is trained with the seed of its record
