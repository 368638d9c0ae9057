"""Training on a GPU: everything is on one device, no step waits, replayed steps equal launched ones, results are portable.

GPU kernels may add in a different order each time, so weights of two trainings are compared with a tolerance of 1e-2.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.conftest import find_shared
from tests.training.helpers import elastic, parse_warm_up
from tests.training.toys import (
    RECIPE,
    SHAPE,
    Busy,
    get_weights,
    make_busy,
    states_equal,
    train_toy,
    write_archive,
)
from untrained import search
from untrained.data import load_data
from untrained.data.parts import TRAIN
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.proxies import load_proxy
from untrained.training import batches as batches_module
from untrained.training.batches import BatchLoader
from untrained.training.cuda_graph import WARM_UP_STEPS, ReplayedGradients
from untrained.training.distributed import SingleProcess
from untrained.training.loop import Training
from untrained.training.network import choose_memory_format
from untrained.training.recipes import RECIPES, load_recipe
from untrained.training.short_training import SHORT_TRAINING
from untrained.types import Batch, Task
from untrained.workflows.export import export
from untrained.workflows.train import train
from untrained.workflows.training_setup import prepare_training

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
EPOCHS = RECIPE.replace("epochs=3", "epochs=4")
REPLAYED = EPOCHS.replace(")", ",graphs=True)")


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_archive(tmp_path)


class Still(Busy):
    """Drops no path, so that its steps may be replayed; dropout stays."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_path = 0.0


def make_still() -> Still:
    with random_state(7):
        return Still()


def assert_close_weights(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    for name, tensor in a.items():
        torch.testing.assert_close(b[name].cpu(), tensor.cpu(), rtol=1e-2, atol=1e-2)


def make_training(data: str, text: str, model: nn.Module) -> Training:
    recipe = load_recipe(text)
    setup = prepare_training(model, "nasbench201", data, recipe, SHAPE, "cuda", None)
    network = setup.build_network("cuda", 0)
    training = Training(network, setup.source, recipe, setup.source.parts, SingleProcess("cuda"), 0)
    training.model.train()
    return training


# ------------------------------------------------------------------------------------------------------ replayed steps


def test_a_replayed_step_equals_a_launched_step_with_the_same_random_numbers():
    """Every call has other inputs, another factor and another dropout, so all losses differ."""

    def compute_losses(wrap: Callable[..., Callable[[Tensor, Tensor], Tensor]]) -> list[float]:
        factor = torch.ones(64, device="cuda", requires_grad=True)

        def gradients(inputs: Tensor, targets: Tensor) -> Tensor:
            loss = (F.dropout(inputs * factor, 0.5) * targets).sum()
            factor.grad = None
            loss.backward()
            return loss.detach()

        call = wrap(gradients)
        losses = []
        for step in range(WARM_UP_STEPS + 5):
            inputs = torch.arange(64.0, device="cuda").roll(step)
            torch.manual_seed(step)
            losses.append(float(call(inputs, torch.ones_like(inputs))))
            assert factor.grad is not None
            with torch.no_grad():
                factor += 0.1 * factor.grad.sign()
        return losses

    launched = compute_losses(lambda gradients: gradients)
    assert len(set(launched)) == len(launched)
    assert compute_losses(lambda gradients: ReplayedGradients(gradients, "cuda")) == pytest.approx(
        launched, rel=1e-6
    )


def test_replayed_steps_reach_the_weights_of_launched_steps(tmp_path, data):
    launched = get_weights(
        train_toy(tmp_path / "a", data, EPOCHS, what=make_still(), device="cuda")
    )
    replayed = train_toy(tmp_path / "b", data, REPLAYED, what=make_still(), device="cuda")
    assert_close_weights(launched, get_weights(replayed))
    assert (
        make_training(data, REPLAYED, make_still()).gradient_function.__class__ is ReplayedGradients
    )
    # The drop-path rate of this network changes, so its steps cannot be replayed.
    assert (
        make_training(data, REPLAYED, make_busy()).gradient_function.__class__
        is not ReplayedGradients
    )


def test_a_stopped_replayed_training_resumes_to_the_same_weights(tmp_path, data):
    whole = get_weights(train_toy(tmp_path / "a", data, REPLAYED, what=make_still(), device="cuda"))
    assert (
        train_toy(
            tmp_path / "b", data, REPLAYED, what=make_still(), device="cuda", time="1ms"
        ).end_reason
        == "time"
    )
    assert_close_weights(
        whole,
        get_weights(train_toy(tmp_path / "b", data, REPLAYED, what=make_still(), device="cuda")),
    )


class ReadsValues(Still):
    """Waits for the device in every forward pass, so it cannot be recorded."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x / max(float(x.abs().max()), 1e-3))


def test_a_network_that_cannot_be_recorded_is_trained_with_ordinary_steps(tmp_path, data):
    training = make_training(data, REPLAYED, ReadsValues().cuda())
    batches = training.train_loader.iterate_training_batches(0)
    for _ in range(WARM_UP_STEPS + 1):
        training.train_step(next(batches))
    assert isinstance(training.gradient_function, ReplayedGradients)
    assert "synchroniz" in training.gradient_function.failure
    assert "\n" not in training.gradient_function.failure
    assert torch.cuda.get_sync_debug_mode() == 0
    trained = train_toy(tmp_path / "a", data, REPLAYED, what=ReadsValues(), device="cuda")
    assert trained.end_reason == "epochs"
    trained = train_toy(tmp_path / "b", data, REPLAYED, what=make_still(), device="cuda")
    assert trained.end_reason == "epochs"


def count_bytes_in_use() -> int:
    """Count the bytes that stay in use after a tensor that two streams read is freed."""
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    torch.empty(2**24, device="cuda").record_stream(torch.cuda.Stream())
    torch.cuda.synchronize()
    torch.empty(1, device="cuda")  # an allocation updates which memory is free
    return int(torch.cuda.memory_stats()["active_bytes.all.current"] - before)


def test_a_failed_recording_leaves_nothing_behind():
    """The generator, the memory and the stream are unchanged, and earlier recordings can still be replayed."""
    ones = torch.ones(1000, device="cuda")

    def sum_with_dropout(inputs: Tensor, targets: Tensor) -> Tensor:
        return F.dropout(inputs, 0.5).sum()

    def fail_while_recording(inputs: Tensor, targets: Tensor) -> Tensor:
        if torch.cuda.is_current_stream_capturing():
            return inputs * float(inputs.sum())
        return sum_with_dropout(inputs, targets)

    def compute_with_seed(call: Callable[[Tensor, Tensor], Tensor]) -> float:
        torch.manual_seed(5)
        return float(call(ones, ones))

    launched = compute_with_seed(sum_with_dropout)
    stream = torch.cuda.current_stream()
    earlier = ReplayedGradients(sum_with_dropout, "cuda")
    broken = ReplayedGradients(fail_while_recording, "cuda")
    later = ReplayedGradients(sum_with_dropout, "cuda")
    assert [
        compute_with_seed(call)
        for call in [earlier] * (WARM_UP_STEPS + 1) + [broken] * WARM_UP_STEPS
    ] == [launched] * (2 * WARM_UP_STEPS + 1)
    for _ in range(2):
        assert compute_with_seed(broken) == launched
    assert broken.failure
    assert torch.cuda.current_stream() == stream
    assert count_bytes_in_use() < 2**20
    assert [
        compute_with_seed(call)
        for call in [sum_with_dropout, earlier] + [later] * (WARM_UP_STEPS + 1)
    ] == [launched] * (WARM_UP_STEPS + 3)


# ---------------------------------------------------------------------------------------------------------- the loop


@pytest.fixture
def forbid_waiting() -> Iterator[Callable[[], None]]:
    """Return a function after whose call waiting for the device is an error."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("graphs", [False, True])
def test_no_step_waits_for_the_device(data, forbid_waiting, graphs):
    training = make_training(data, f"cifar(batch=5,cutout=2,crop=1,graphs={graphs})", make_still())
    batches = training.train_loader.iterate_training_batches(0)
    for _ in range(WARM_UP_STEPS + 2):
        training.train_step(next(batches))
    forbid_waiting()
    for _ in range(3):
        training.train_step(next(batches))
    assert training.step == WARM_UP_STEPS + 5
    # This proves that a step that waits would have raised an error.
    with pytest.raises(RuntimeError, match="synchronizing"):
        training.epoch_loss.item()


def test_images_that_do_not_fit_on_the_gpu_give_the_same_batches(data, monkeypatch):
    part = load_data(data, Task("any", SHAPE, 3)).parts[TRAIN]
    recipe = load_recipe(RECIPE)
    task = Task("stripes", SHAPE, 3)
    on_gpu = BatchLoader.open(part, task, recipe, "cuda", 0)
    monkeypatch.setattr(batches_module, "GPU_MEMORY_SHARE", 0.0)
    on_cpu = BatchLoader.open(part, task, recipe, "cuda", 0)
    assert (on_gpu.part.images.device.type, on_cpu.part.images.device.type) == ("cuda", "cpu")
    for one, other in zip(
        on_gpu.iterate_training_batches(1), on_cpu.iterate_training_batches(1), strict=True
    ):
        assert one.inputs.is_cuda
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.targets, other.targets)


def test_weights_and_their_average_stay_in_full_precision(data):
    training = make_training(data, "cifar(batch=10,cutout=2,crop=1)", make_still())
    assert RECIPES["cifar"].bf16
    output_dtypes: list[torch.dtype] = []
    training.model.conv.register_forward_hook(
        lambda module, inputs, output: output_dtypes.append(output.dtype)
    )
    for batch in training.train_loader.iterate_training_batches(0):
        training.train_step(batch)
    assert set(output_dtypes) == {torch.bfloat16}
    assert training.weight_average is not None
    for net in (training.model, training.weight_average.model):
        dtypes = {
            tensor.dtype for tensor in net.state_dict().values() if tensor.is_floating_point()
        }
        assert dtypes == {torch.float32}
        assert all(tensor.is_cuda for tensor in net.state_dict().values())
    assert {p.grad.dtype for p in training.model.parameters() if p.grad is not None} == {
        torch.float32
    }


def test_an_auxiliary_tower_that_pools_only_in_training_keeps_channels_first():
    class Tower(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.avg_pool2d(x, 5, stride=3) if self.training else x

    batch = Batch(torch.zeros(2, 3, 8, 8, device="cuda"), torch.zeros(2))
    assert choose_memory_format(Tower().cuda(), batch) == torch.contiguous_format


def test_random_states_of_the_device_are_restored():
    before = torch.cuda.get_rng_state()
    with random_state(3):
        torch.rand(5, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_a_training_on_clicks_has_the_loss_of_the_cpu(tmp_path):
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    rows = [
        "click,a,b,c,d,e",
        *(
            f"{i % 3 // 2},{i % 7}.5,{i % 11}.5,{i * i % 13}.5,{i % 5}.5,{i % 3}.5"
            for i in range(300)
        ),
    ]
    (tmp_path / "c.csv").write_text("\n".join(rows))
    data = f"csv:{tmp_path / 'c.csv'}?label=click"
    here, there = (
        train(net, data, "ctr(epochs=2)", run=tmp_path / kind, device=kind, input_shape=(5,))
        for kind in ("cpu", "cuda")
    )
    assert there.loss == pytest.approx(here.loss, rel=1e-3)


# -------------------------------------------------------------------------------------------- before and after training


def test_a_finished_warm_up_is_read_from_its_checkpoint(tmp_path):
    whole = parse_warm_up("20%").prepare_weights(elastic, 0, "cuda", tmp_path / "a", None)
    # The second call reads the checkpoint of the finished warm-up.
    again = parse_warm_up("20%").prepare_weights(elastic, 0, "cuda", tmp_path / "a", None)
    assert all(tensor.device.type == "cpu" for tensor in whole.weights.values())
    assert states_equal(whole.weights, again.weights)
    model = elastic.build(elastic.parse("width=3"), device="cuda")
    whole.open(lambda: elastic.supernet(device="cuda"), "cuda")(model, elastic.parse("width=3"), 0)
    torch.testing.assert_close(model[1].weight.cpu(), whole.weights["body.1.weight"][:3])


def test_a_short_training_gives_the_same_accuracy_on_both_devices():
    torch.manual_seed(0)
    source = load_data("digits", Task("digits", (1, 8, 8), 10))
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    short_training = load_proxy(f"{SHORT_TRAINING}(epochs=3,samples=600)")
    batch = source.batch(600)
    on_cpu = short_training(Probe(net.to("cpu"), batch.to("cpu")))
    on_gpu = short_training(Probe(net.to("cuda"), batch.to("cuda")))
    assert on_gpu == pytest.approx(on_cpu, abs=0.02)


def test_a_search_on_the_gpu_leads_to_an_exported_model(tmp_path):
    """The module itself, on the device and with channels last, can be exported too."""
    for package in ("onnx", "onnxruntime", "onnxscript", "safetensors"):
        pytest.importorskip(package)
    space = "nasbench201(channels=4,cells=1)"
    options = {"device": "cuda", "run": tmp_path / "run"}
    result = search(
        space, "dextr", budget=3, data="digits", confirm=1, workers=1, input_size=8, **options
    )
    assert result.contest is not None
    trained = train(
        tmp_path / "run", recipe="cifar(epochs=2,batch=64,cutout=2,crop=1)", device="cuda"
    )
    assert next(trained.model.parameters()).is_cuda
    exported = export(tmp_path / "run", tmp_path / "out")
    assert exported.missing == {}
    assert json.loads((exported.folder / "config.json").read_text())["made_by"]
    assert (
        export(trained.model, tmp_path / "again", data="digits", input_shape=(3, 8, 8)).missing
        == {}
    )


@pytest.mark.data
def test_both_parts_of_the_benchmark_run(tmp_path, monkeypatch, capsys):
    from tests.training.test_benchmark import run_cifar, run_throughput

    archive_of_pictures = f"npz:{find_shared('data', 'cifar10', 'subset_2000_1000.npz')}"
    assert "times the fastest plain loop; at least 3" in run_throughput(
        monkeypatch, capsys, archive_of_pictures, "cuda"
    )
    assert "The goal of " in run_cifar(
        monkeypatch, capsys, archive_of_pictures, tmp_path / "out", "cuda"
    )
