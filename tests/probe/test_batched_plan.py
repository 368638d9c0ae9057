"""Networks measured together have the same features and jets as networks measured alone.

Expected values are those of a single Probe, which other tests compare with autograd and SVD.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untrained.probe import Probe
from untrained.probe.batched.plan import (
    MeasurementPlan,
    ViewPlan,
    compute_slice_conditions,
    copy_to_cpu,
)
from untrained.probe.batched.scheduler import RunStatistics, StackSlice, TapeResult, gather_stack
from untrained.probe.batched.signatures import SignatureCache
from untrained.probe.jets import Jet
from untrained.types import Batch

CLOSE = 1e-4  # relative to the norm; float32 kernels for many networks add in another order


def make_batch(*shape: int) -> Batch:
    return Batch(
        torch.randn(*shape, generator=torch.Generator().manual_seed(1)),
        torch.zeros(shape[0]).long(),
    )


def make_networks(make: Any, count: int) -> list[nn.Module]:
    """Make networks with different weights, also in norms, whose equal defaults would hide a mix-up."""
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        models.append(make())
        for parameter in models[-1].parameters():
            nn.init.normal_(parameter, 0.1, 0.5)
    return models


def measure_together(
    models: list[nn.Module], data: Batch
) -> tuple[list[Probe], RunStatistics, MeasurementPlan]:
    """Return probes with measurements that were taken together."""
    plan = MeasurementPlan(
        (
            ViewPlan(
                len(data), True, "all", (tuple(data.inputs.shape[1:]),), operations=len(data) == 1
            ),
        )
    )
    probes = [Probe(model, data) for model in models]
    statistics = RunStatistics()
    plan.measure(probes, SignatureCache(), statistics)
    return probes, statistics, plan


def assert_agreement(models: list[nn.Module], data: Batch) -> RunStatistics:
    """Assert that all measurements were taken together and are right."""
    probes, statistics, plan = measure_together(models, data)
    shape = tuple(data.inputs.shape[1:])
    for model, probe in zip(models, probes, strict=True):
        alone = Probe(model, data)
        assert plan.is_complete(probe)
        expected = [(f.name, f.calls, f.leaf_calls, f.tensor.shape) for f in alone.features]
        assert [(f.name, f.calls, f.leaf_calls, f.tensor.shape) for f in probe.features] == expected
        assert_near(probe.outputs, alone.outputs)
        assert "operations" in vars(probe) or len(data) > 1
        assert probe.operations == alone.operations
        assert_near(probe.last_map, alone.last_map)
        for ours, theirs in zip(probe.features, alone.features, strict=True):
            assert_near(ours.tensor, theirs.tensor)
        together = probe.inverse_conditions(probe.features)
        single = alone.inverse_conditions(alone.features)
        torch.testing.assert_close(together, single, rtol=1e-3, atol=1e-5)
        for together_row, row in zip(
            probe._motions[shape], alone.circle_motion(shape), strict=True
        ):
            assert_near(together_row, row)
    return statistics


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert float((ours - theirs).norm()) <= CLOSE * float(theirs.norm())


class Wired(nn.Module):
    """A cell of two edges, each a convolution, a skip connection or a pooling."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.first = self.edge(first)
        self.second = self.edge(second)
        self.head = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def edge(self, kind: str) -> nn.Module:
        conv = nn.Sequential(
            nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False), nn.BatchNorm2d(4)
        )
        return {"conv": conv, "skip": nn.Identity(), "pool": nn.AvgPool2d(3, 1, 1)}[kind]

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.first(x)
        out: Tensor = self.head(self.second(y) + x * 0.5)
        return out


KINDS = [("conv", "skip"), ("conv", "conv"), ("pool", "conv"), ("skip", "pool"), ("skip", "conv")]


@pytest.mark.parametrize("samples", [1, 3])
def test_networks_with_different_wiring_are_measured_together(samples):
    models = [model for kinds in KINDS for model in make_networks(lambda k=kinds: Wired(*k), 2)]
    statistics = assert_agreement(models, make_batch(samples, 3, 8, 8))
    assert statistics.groups <= statistics.calls / 6  # of at most ten


class Transformer(nn.Module):
    """Attention written out, with softmax, products, chunks and a learned position."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1, 4, 8))
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).transpose(1, 2) + self.position
        n, length, _ = x.shape
        q, k, v = (
            self.qkv(self.norm(x)).reshape(n, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        )
        weights = (q @ k.transpose(-2, -1) / 2).softmax(dim=-1)
        x = x + (weights @ v).transpose(1, 2).reshape(n, length, 8)
        x = x + F.scaled_dot_product_attention(x, x, x)
        return self.out(F.gelu(x).mean(1))


class Assorted(nn.Module):
    """All other functions that have a fold or need none."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(3, 6, 1, stride=2)
        self.group = nn.GroupNorm(2, 6)
        self.scale = nn.Parameter(torch.ones(6, 1, 1))
        self.dim = nn.PReLU()
        self.last = nn.Linear(24, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.group(self.wide(x)) * self.scale
        x = torch.cat([F.max_pool2d(x, 2), self.dim(F.silu(x[:, :, ::2, ::2]))], 1)
        x = F.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:] - torch.ones(1, device=x.device)
        return self.last(x.flatten(1).chunk(2, 1)[0].softmax(1).repeat(1, 1) / 3)


class InPlace(nn.Module):
    """Functions that overwrite outputs of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1), nn.Hardtanh(inplace=True)
        )
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        x += 1
        x.mul_(2)
        out: Tensor = self.last(x.mean((2, 3)))
        return out


class Branches(nn.Module):
    """A ReLU of the same node in two branches; it is one feature if nothing is overwritten."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.left, self.right = (nn.Sequential(nn.ReLU(), nn.Conv2d(3, 2, 3)) for _ in range(2))
        self.last = nn.Sequential(nn.Hardtanh(inplace=inplace), nn.Flatten(), nn.Linear(72, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.1
        out: Tensor = self.last(self.left(x) + self.right(x))
        return out


def make_overwriting() -> nn.Module:
    return Branches(inplace=True)


@pytest.mark.parametrize("make", [Transformer, Assorted, InPlace, Branches, make_overwriting])
@pytest.mark.parametrize("samples", [1, 2])
def test_networks_with_many_kinds_of_functions_are_measured_together(make, samples):
    shape = (8, 2, 2) if make is Transformer else (3, 8, 8)
    statistics = assert_agreement(make_networks(make, 3), make_batch(samples, *shape))
    assert statistics.groups < statistics.calls / 2


class Branching(Assorted):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if x.mean() > 100 else -x)


class Drawing(Assorted):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.rand_like(x))


class WritingIntoAView(Assorted):
    def forward(self, x: Tensor) -> Tensor:
        x[:, 0].zero_()
        return super().forward(x)


class Failing(Assorted):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :2])


@pytest.mark.parametrize("odd", [Branching, Drawing, WritingIntoAView, Failing])
def test_a_network_that_cannot_be_recorded_does_not_affect_others(odd):
    models = make_networks(Assorted, 2)
    probes, _, plan = measure_together([models[0], odd(), models[1]], make_batch(1, 3, 8, 8))
    assert [plan.is_complete(probe) for probe in probes] == [True, False, True]
    assert "features" not in vars(probes[1])
    assert_near(probes[2].outputs, Probe(models[1], make_batch(1, 3, 8, 8)).outputs)


def test_a_network_for_one_input_size_is_not_measured_at_another():
    plan = MeasurementPlan((ViewPlan(1, True, "", ((3, 12, 12),)),))
    probe = Probe(InPlace(), make_batch(1, 3, 8, 8))
    fixed = Probe(nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), make_batch(1, 3, 8, 8))
    plan.measure([probe, fixed], SignatureCache())
    assert "features" in vars(fixed)
    assert (list(probe._motions), list(fixed._motions)) == ([(3, 12, 12)], [])


def test_networks_wait_for_each_other_before_shared_layers():
    """Short networks must not run ahead, so there are as many launches as for the longest network alone."""

    def make_chain(length: int) -> nn.Module:
        body = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(length)]
        return nn.Sequential(nn.Flatten(), nn.Linear(12, 4), *body, nn.Linear(4, 2))

    _, statistics, _ = measure_together(
        [make_chain(1), make_chain(4), make_chain(2)], make_batch(1, 3, 2, 2)
    )
    assert (statistics.calls, statistics.groups) == (2 * (5 + 11 + 7), 2 * 11)


class Bessel(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.i0(x).flatten(1)


def test_a_function_without_a_taylor_rule_does_not_affect_other_networks():
    probes, _, plan = measure_together([Bessel(), InPlace(), Bessel()], make_batch(1, 3, 8, 8))
    assert [plan.is_complete(probe) for probe in probes] == [False, True, False]
    assert_near(probes[2].outputs, torch.special.i0(probes[2].batch.inputs).flatten(1))


def test_networks_with_norms_over_few_values_are_not_measured_together():
    """With four positions per channel, a few such norms amplify float32 rounding too much."""
    probes, _, plan = measure_together(
        make_networks(lambda: Wired("conv", "skip"), 2), make_batch(1, 3, 2, 2)
    )
    assert not any(map(plan.is_complete, probes))


def test_a_plan_lists_what_was_measured_of_the_first_samples():
    probe = Probe(Assorted(), make_batch(4, 3, 8, 8))
    first = probe.first(2)
    first.inverse_conditions([f for f in first.features if f.leaf_calls][:2])
    first.circle_motion((3, 8, 8))
    assert MeasurementPlan.from_probe(probe) == MeasurementPlan(
        (ViewPlan(2, True, "leaves", ((3, 8, 8),)),)
    )
    assert MeasurementPlan.from_probe(Probe(Assorted(), make_batch(1, 3, 8, 8))) == MeasurementPlan(
        ()
    )


def test_models_are_unchanged():
    model = InPlace().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    other = InPlace()
    state = torch.random.get_rng_state()
    measure_together([model, other], make_batch(1, 3, 8, 8))
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())


def test_running_out_of_memory_is_raised(monkeypatch):
    from untrained.probe.batched import scheduler

    def raise_out_of_memory(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr(scheduler, "call_folded", raise_out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        measure_together(make_networks(Assorted, 2), make_batch(1, 3, 8, 8))


def test_condition_numbers_do_not_depend_on_the_place_in_a_stack():
    """A whole stack in another order, a part of a stack with another shape, and a constant."""
    draw = torch.Generator().manual_seed(3)
    wide = torch.randn(4, 2, 3, 2, 4, generator=draw)
    tall = torch.randn(3, 1, 5, 2, generator=draw)
    constant = torch.randn(1, 3, 8, generator=draw)
    pieces = [StackSlice(wide, i) for i in (2, 0, 3, 1)] + [
        StackSlice(tall, 2),
        StackSlice(tall, 0),
    ]
    pieces.insert(3, TapeResult({}).find_slice(constant))
    expected = []
    for piece in pieces:
        first = piece.stack[piece.position, 0]
        sigma = torch.linalg.svdvals(first.reshape(len(first), -1).double())
        expected.append(float(sigma[-1] / sigma[0]))
    assert compute_slice_conditions(pieces) == pytest.approx(expected, rel=1e-7)


def test_copies_on_the_cpu_are_in_order_also_for_different_shapes():
    rows = [torch.ones(2), torch.zeros(2)]
    for tensors in (rows, [torch.ones(2), torch.zeros(3)], []):
        copies = copy_to_cpu(tensors)
        assert len(copies) == len(tensors)
        assert all(torch.equal(one, other) for one, other in zip(copies, tensors, strict=True))


@pytest.mark.parametrize("shape", [(), (3,), (1, 4, 5, 5), (0, 3), (2, 4, 3, 3, 3)])
def test_values_of_several_stacks_are_gathered_in_order(shape):
    first, second = (Jet.of(torch.randn(n, *shape), torch.randn(2, n, *shape)) for n in (4, 3))
    places = [(first, 2), (second, 1), (first, 0), (first, 1)]
    gathered = gather_stack([StackSlice(stack, place) for stack, place in places])
    assert torch.equal(gathered.value, torch.stack([stack.value[place] for stack, place in places]))
    assert torch.equal(
        gathered.derivatives,
        torch.stack([stack.derivatives[:, place] for stack, place in places], 1),
    )
    plain = gather_stack([StackSlice(stack.value, place) for stack, place in places])
    assert torch.equal(plain, gathered.value)
