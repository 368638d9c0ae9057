"""What only a GPU can show: everything is on one device, nothing waits in the middle of a step, replayed steps are the
launched ones, and what was learned there can be taken elsewhere.

Kernels there need not add in the same order twice, so weights of two trainings are compared with a tolerance of 1e-2.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.conftest import shared
from tests.training.helpers import asked, elastic
from tests.training.toys import RECIPE, SHAPE, Busy, archive, busy, same, trained, weights
from untrained import search
from untrained.data import load_data
from untrained.data.parts import TRAIN
from untrained.errors import UsageError
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
from untrained.workflows.train_subject import resolve_subject

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
EPOCHS = RECIPE.replace("epochs=3", "epochs=4")
REPLAYED = EPOCHS.replace(")", ",graphs=True)")


@pytest.fixture
def data(tmp_path: Path) -> str:
    return archive(tmp_path)


class Still(Busy):
    """Drops no path, so that its steps may be replayed; dropout stays."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_path = 0.0


def still() -> Still:
    with random_state(7):
        return Still()


def close(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    for name, tensor in a.items():
        torch.testing.assert_close(b[name].cpu(), tensor.cpu(), rtol=1e-2, atol=1e-2)


def trainer(data: str, said: str, model: nn.Module) -> Training:
    how = load_recipe(said)
    chosen = resolve_subject(model, "nasbench201", data, how, SHAPE, "cuda", None)
    network = chosen.build_network("cuda", 0)
    made = Training(network, chosen.source, how, chosen.source.parts, SingleProcess("cuda"), 0)
    made.model.train()
    return made


# ------------------------------------------------------------------------------------------------------ replayed steps


def test_replayed_is_launched_to_the_last_digit_with_the_same_chance():
    """Losses are sums that differ in every call: other inputs, another factor after each step, other dropout."""

    def losses(wrap: Callable[..., Callable[[Tensor, Tensor], Tensor]]) -> list[float]:
        factor = torch.ones(64, device="cuda", requires_grad=True)

        def gradients(inputs: Tensor, targets: Tensor) -> Tensor:
            loss = (F.dropout(inputs * factor, 0.5) * targets).sum()
            factor.grad = None
            loss.backward()
            return loss.detach()

        call, found = wrap(gradients), []
        for step in range(WARM_UP_STEPS + 5):
            inputs = torch.arange(64.0, device="cuda").roll(step)
            torch.manual_seed(step)
            found.append(float(call(inputs, torch.ones_like(inputs))))
            assert factor.grad is not None
            with torch.no_grad():
                factor += 0.1 * factor.grad.sign()
        return found

    launched = losses(lambda gradients: gradients)
    assert len(set(launched)) == len(launched)
    assert losses(lambda gradients: ReplayedGradients(gradients, "cuda")) == pytest.approx(
        launched, rel=1e-6
    )


def test_replayed_steps_learn_what_launched_ones_learn(tmp_path, data):
    launched = weights(trained(tmp_path / "a", data, EPOCHS, what=still(), device="cuda"))
    replayed = trained(tmp_path / "b", data, REPLAYED, what=still(), device="cuda")
    close(launched, weights(replayed))
    assert trainer(data, REPLAYED, still()).gradient_function.__class__ is ReplayedGradients
    assert (
        trainer(data, REPLAYED, busy()).gradient_function.__class__ is not ReplayedGradients
    )  # its paths are dropped ever more often


def test_a_replayed_training_that_was_stopped_goes_on_to_the_same_weights(tmp_path, data):
    whole = weights(trained(tmp_path / "a", data, REPLAYED, what=still(), device="cuda"))
    assert (
        trained(tmp_path / "b", data, REPLAYED, what=still(), device="cuda", time="1ms").ended
        == "time"
    )
    close(whole, weights(trained(tmp_path / "b", data, REPLAYED, what=still(), device="cuda")))


def test_a_network_that_looks_at_its_own_numbers_is_refused_in_one_line(tmp_path, data):
    class Looks(Still):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x / max(float(x.abs().max()), 1e-3))

    with pytest.raises(
        UsageError, match=r"cannot be recorded: .*; put graphs=False in the recipe"
    ) as caught:
        trained(tmp_path / "a", data, REPLAYED, what=Looks(), device="cuda")
    assert "\n" not in str(caught.value)
    assert torch.cuda.get_sync_debug_mode() == 0
    assert trained(tmp_path / "b", data, EPOCHS, what=Looks(), device="cuda").ended == "epochs"
    assert trained(tmp_path / "c", data, REPLAYED, what=still(), device="cuda").ended == "epochs"


def kept() -> int:
    """Bytes that stay in use when a tensor which two streams read is gone."""
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    torch.empty(2**24, device="cuda").record_stream(torch.cuda.Stream())
    torch.cuda.synchronize()
    torch.empty(1, device="cuda")  # whoever asks for memory first sees what has become free
    return int(torch.cuda.memory_stats()["active_bytes.all.current"] - before)


def test_a_recording_that_breaks_off_leaves_nothing_behind():
    """Neither in the generator nor in memory nor in the stream; and what was recorded before can still be replayed."""
    ones = torch.ones(1000, device="cuda")

    def chance(inputs: Tensor, targets: Tensor) -> Tensor:
        return F.dropout(inputs, 0.5).sum()

    def breaks(inputs: Tensor, targets: Tensor) -> Tensor:
        return (
            inputs * float(inputs.sum())
            if torch.cuda.is_current_stream_capturing()
            else chance(inputs, targets)
        )

    def told(call: Callable[[Tensor, Tensor], Tensor]) -> float:
        torch.manual_seed(5)
        return float(call(ones, ones))

    launched, stream = told(chance), torch.cuda.current_stream()
    earlier, broken, later = (
        ReplayedGradients(chance, "cuda"),
        ReplayedGradients(breaks, "cuda"),
        ReplayedGradients(chance, "cuda"),
    )
    assert [told(call) for call in [earlier] * (WARM_UP_STEPS + 1) + [broken] * WARM_UP_STEPS] == [
        launched
    ] * (2 * WARM_UP_STEPS + 1)
    for _ in range(2):
        with pytest.raises(
            UsageError, match=r"cannot be recorded: .*; put graphs=False in the recipe"
        ):
            told(broken)
    assert torch.cuda.current_stream() == stream
    assert kept() < 2**20
    assert [told(call) for call in [chance, earlier] + [later] * (WARM_UP_STEPS + 1)] == [
        launched
    ] * (WARM_UP_STEPS + 3)


# ---------------------------------------------------------------------------------------------------------- the loop


@pytest.fixture
def hurried() -> Iterator[Callable[[], None]]:
    """After a call, whatever waits for the device is an error."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("graphs", [False, True])
def test_no_step_waits_for_the_device(data, hurried, graphs):
    made = trainer(data, f"cifar(batch=5,cutout=2,crop=1,graphs={graphs})", still())
    batches = made.train_loader.training_batches(0)
    for _ in range(WARM_UP_STEPS + 2):
        made.train_step(next(batches))
    hurried()
    for _ in range(3):
        made.train_step(next(batches))
    assert made.step == WARM_UP_STEPS + 5
    with pytest.raises(
        RuntimeError, match="synchronizing"
    ):  # so a step that waits would have been heard of
        made.epoch_loss.item()


def test_pictures_that_do_not_fit_make_the_same_batches(data, monkeypatch):
    part, how = load_data(data, Task("any", SHAPE, 3)).parts[TRAIN], load_recipe(RECIPE)
    task = Task("stripes", SHAPE, 3)
    there = BatchLoader.open(part, task, how, "cuda", 0)
    monkeypatch.setattr(batches_module, "GPU_MEMORY_SHARE", 0.0)
    here = BatchLoader.open(part, task, how, "cuda", 0)
    assert (there.part.images.device.type, here.part.images.device.type) == ("cuda", "cpu")
    for one, other in zip(there.training_batches(1), here.training_batches(1), strict=True):
        assert one.inputs.is_cuda
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.targets, other.targets)


def test_weights_and_their_average_stay_in_full_precision_where_arithmetic_is_not(data):
    made = trainer(data, "cifar(batch=10,cutout=2,crop=1)", still())
    assert RECIPES["cifar"].bf16
    heard: list[torch.dtype] = []
    made.model.conv.register_forward_hook(lambda module, inputs, output: heard.append(output.dtype))
    for batch in made.train_loader.training_batches(0):
        made.train_step(batch)
    assert set(heard) == {torch.bfloat16}
    assert made.average is not None
    for net in (made.model, made.average.model):
        found = {tensor.dtype for tensor in net.state_dict().values() if tensor.is_floating_point()}
        assert found == {torch.float32}
        assert all(tensor.is_cuda for tensor in net.state_dict().values())
    assert {p.grad.dtype for p in made.model.parameters() if p.grad is not None} == {torch.float32}


def test_an_auxiliary_tower_that_pools_only_while_learning_keeps_channels_first():
    class Tower(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.avg_pool2d(x, 5, stride=3) if self.training else x

    batch = Batch(torch.zeros(2, 3, 8, 8, device="cuda"), torch.zeros(2))
    assert choose_memory_format(Tower().cuda(), batch) == torch.contiguous_format


def test_random_states_of_the_device_are_put_back():
    before = torch.cuda.get_rng_state()
    with random_state(3):
        torch.rand(5, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_clicks_are_learned(tmp_path):
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    rows = [
        "click,a,b,c,d,e",
        *(
            f"{i % 3 // 2},{i % 7}.5,{i % 11}.5,{i * i % 13}.5,{i % 5}.5,{i % 3}.5"
            for i in range(300)
        ),
    ]
    (tmp_path / "c.csv").write_text("\n".join(rows))
    said = f"csv:{tmp_path / 'c.csv'}?label=click"
    here, there = (
        train(net, said, "ctr(epochs=2)", run=tmp_path / kind, device=kind, input_shape=(5,))
        for kind in ("cpu", "cuda")
    )
    assert there.loss == pytest.approx(here.loss, rel=1e-3)


# -------------------------------------------------------------------------------------------- before and after training


def test_a_warm_up_that_was_stopped_goes_on_to_the_same_weights(tmp_path):
    whole = asked("20%").prepare_weights(elastic, 0, "cuda", tmp_path / "a", None)
    again = asked("20%").prepare_weights(
        elastic, 0, "cuda", tmp_path / "a", None
    )  # from the checkpoint at its end
    assert all(tensor.device.type == "cpu" for tensor in whole.weights.values())
    assert same(whole.weights, again.weights)
    model = elastic.build(elastic.parse("width=3"), device="cuda")
    whole.open(lambda: elastic.supernet(device="cuda"), "cuda")(model, elastic.parse("width=3"), 0)
    torch.testing.assert_close(model[1].weight.cpu(), whole.weights["body.1.weight"][:3])


def test_a_short_training_is_asked_for_like_a_proxy():
    torch.manual_seed(0)
    source = load_data("digits", Task("digits", (1, 8, 8), 10))
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    training, batch = load_proxy(f"{SHORT_TRAINING}(epochs=3,samples=600)"), source.batch(600)
    here, there = (training(Probe(net.to(kind), batch.to(kind))) for kind in ("cpu", "cuda"))
    assert there == pytest.approx(here, abs=0.02)


def test_from_a_search_to_an_exported_model(tmp_path):
    """And the module itself, which lies on the device with its channels last, can be exported too."""
    for package in ("onnx", "onnxruntime", "onnxscript", "safetensors"):
        pytest.importorskip(package)
    space = "nasbench201(channels=4,cells=1)"
    said = {"device": "cuda", "run": tmp_path / "run"}
    done = search(
        space, "dextr", budget=3, data="digits", confirm=1, workers=1, input_size=8, **said
    )
    assert done.confirmed is not None
    found = train(
        tmp_path / "run", recipe="cifar(epochs=2,batch=64,cutout=2,crop=1)", device="cuda"
    )
    assert next(found.model.parameters()).is_cuda
    exported = export(tmp_path / "run", tmp_path / "out")
    assert exported.missing == {}
    assert json.loads((exported.folder / "config.json").read_text())["made_by"]
    assert (
        export(found.model, tmp_path / "again", data="digits", input_shape=(3, 8, 8)).missing == {}
    )


@pytest.mark.data
def test_throughput_and_trainings_of_the_benchmark_run(tmp_path, monkeypatch, capsys):
    from tests.training.test_benchmark import cifar, throughput

    archive_of_pictures = f"npz:{shared('data', 'cifar10', 'subset_2000_1000.npz')}"
    assert "times the fastest plain loop; at least 3" in throughput(
        monkeypatch, capsys, archive_of_pictures, "cuda"
    )
    assert "were wanted: " in cifar(
        monkeypatch, capsys, archive_of_pictures, tmp_path / "out", "cuda"
    )
