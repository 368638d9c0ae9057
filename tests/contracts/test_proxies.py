"""One contract for every registered proxy: it leaves no trace, says the same twice, and fails by name.

A new proxy is under this contract as soon as it is registered; only the last three tests know one by name.
"""

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import chain
from math import isfinite
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from untrained.errors import Unscorable
from untrained.probe import Probe
from untrained.probe.circle import plane
from untrained.proxies import PROXIES, Proxy, load_proxy
from untrained.spaces import load_space
from untrained.types import Batch, Task

NAMES = [*PROXIES, *(f"{name}(variant=published)" for name in ("dextr", "dextr_conditions", "dextr_curvature"))]
GOOD = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"


# ----------------------------------------------------------------------------------------------------------- the models


class Attention(nn.Module):
    """A small vision transformer for 16 patches: other input sizes do not fit its positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, stride=8)
        self.positions = nn.Parameter(torch.randn(1, 16, 8))
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 12, 0.2, batch_first=True) for _ in range(2)))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.blocks(tokens).mean(1))


class DoublesInPlace(nn.Module):
    """Writes into the very tensor it is given."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)


class Noisy(nn.Module):
    """Draws from every global generator."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand(()) + random.random() + float(np.random.rand())  # noqa: NPY002


def nb201(text: str = GOOD) -> nn.Module:
    space = load_space("nasbench201").configured(channels=4, cells=1)
    return space.build(space.parse(text), Task("noise", (3, 32, 32), 5))


def cnn() -> nn.Module:
    convolutions = [nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.Dropout2d(0.5)]
    more = [nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6, momentum=None), nn.ReLU(inplace=True)]
    return nn.Sequential(*convolutions, *more, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 5))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 5))


def mixed() -> nn.Module:
    """Some modules in train mode, some in eval mode, some frozen, and hooks of the user's own."""
    model = cnn()
    model[1].eval()
    model[9].eval()
    model[0].requires_grad_(False)
    model[4].weight.requires_grad_(False)
    model[4].register_forward_hook(lambda module, args, output: None)
    model[5].register_forward_pre_hook(lambda module, args: None)
    return model


def in_place() -> nn.Module:
    return nn.Sequential(DoublesInPlace(), nn.ReLU(inplace=True), *cnn())


def noisy() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 6, 3, 2), Noisy(), nn.SiLU(), nn.Flatten(2), nn.Linear(225, 1), nn.Flatten())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "nasbench201": nb201,
    "cnn": cnn,
    "transformer": Attention,
    "mlp": mlp,
    "mixed modes": mixed,
    "in place": in_place,
    "noisy": noisy,
}


def made(kind: str) -> nn.Module:
    """A model in train mode, unless it says otherwise, every other of whose parameters holds a gradient."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = MODELS[kind]()
        for p in list(model.parameters())[::2]:
            p.grad = torch.randn_like(p)
        for name, buffer in model.named_buffers():
            if "running_mean" in name:
                buffer.normal_()
    return model


def batch_for(kind: str, proxy: Proxy) -> Batch:
    shape = (6,) if kind == "mlp" else (3, 32, 32)
    draw = torch.Generator().manual_seed(2)
    samples = proxy.samples
    return Batch(torch.randn(samples, *shape, generator=draw), torch.randint(5, (samples,), generator=draw))


def score(name: str, kind: str, model: nn.Module, seed: int = 0) -> float:
    proxy = load_proxy(name)
    return proxy(Probe(model, batch_for(kind, proxy), seed=seed))


# ------------------------------------------------------------------------------------------------------------ the trace


def bits(tensor: Tensor | None) -> bytes | None:
    return None if tensor is None else tensor.detach().numpy().tobytes()


def state(model: nn.Module) -> dict[str, Any]:
    """Everything a probe could have left behind, comparable with ==."""
    found: dict[str, Any] = {}
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        found[f"{name}: tensor"] = (id(tensor), tensor.data_ptr(), bits(tensor), tensor._version)
        found[f"{name}: gradient"] = (tensor.requires_grad, id(tensor.grad), bits(tensor.grad), tensor.grad_fn)
    for name, module in model.named_modules():
        found[f"{name}: mode"] = module.training
        found[f"{name}: attributes"] = {key: id(value) for key, value in vars(module).items() if key != "training"}
        found[f"{name}: hooks"] = {key: dict(hooks) for key, hooks in vars(module).items() if key.endswith("_hooks")}
    return found | surroundings()


def surroundings() -> dict[str, Any]:
    """What belongs to no model: random states, torch's global hooks and modes."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the global state is what is looked at
    return {
        "torch": bits(torch.get_rng_state()),
        "numpy": (kind, keys.tobytes(), *rest),
        "python": random.getstate(),
        "global hooks": {
            n: dict(hooks) for n, hooks in vars(torch_module).items() if n.startswith("_global_") and hooks
        },
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()),
        "function modes": torch.overrides._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
    }


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Start from known random states; the tests compare what comes after with what was before."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        random.seed(11)
        np.random.seed(11)  # noqa: NPY002
        yield


def test_the_trace_would_be_seen():
    """The looking glass itself: an ordinary forward and backward pass of a network in train mode changes all this."""
    model = made("cnn")
    before = state(model)
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    random.random()
    np.random.rand()  # noqa: NPY002
    model[0].register_forward_hook(lambda *_: None)
    model[3].eval()
    changed = {key for key, value in state(model).items() if value != before[key]}
    assert {"torch", "numpy", "python", "0: hooks", "3: mode", "0.weight: gradient"} <= changed
    assert {"1.running_mean: tensor", "1.num_batches_tracked: tensor"} <= changed
    assert "0.weight: tensor" not in changed


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_a_probe_leaves_no_trace(name, kind):
    model, proxy = made(kind), load_proxy(name)
    batch = batch_for(kind, proxy)
    before, data = state(model), (bits(batch.inputs), bits(batch.targets))
    value = proxy(Probe(model, batch))
    assert isfinite(value)
    assert state(model) == before
    assert (bits(batch.inputs), bits(batch.targets)) == data


class Boom(Exception):  # noqa: N818 - no error of ours
    pass


class Raises(nn.Module):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error("not today")


@pytest.mark.parametrize("error", [Boom, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_that_raises_leaves_no_trace(name, error):
    model = made("mixed modes").insert(6, Raises(error))
    before = state(model)
    caught = None
    try:
        score(name, "cnn", model)
    except error as raised:
        caught = raised
    assert load_proxy(name).needs == () or "not today" in str(caught)  # who reads data hears of it
    assert state(model) == before
    assert not torch_module._global_forward_hooks


# ------------------------------------------------------------------------------------------------------ the same answer


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_score(name, kind):
    """Bit for bit, whatever was drawn from the global generators in between, and whatever was measured before."""
    model = made(kind)
    first = score(name, kind, model)
    torch.rand(7)
    random.random()
    plane.cache_clear()
    assert score(name, kind, model) == first
    assert score(name, kind, made(kind)) == first
    assert score(name, kind, model.eval()) == first  # nor does the mode matter that the model came in


@pytest.mark.parametrize("kind", MODELS)
def test_proxies_on_one_probe_do_not_disturb_each_other(kind):
    proxies = [load_proxy(name) for name in NAMES if load_proxy(name).samples == 1]
    batch = batch_for(kind, proxies[0])
    alone = [proxy(Probe(made(kind), batch)) for proxy in proxies]
    for order in (1, -1):
        probe = Probe(made(kind), batch)
        assert [proxy(probe) for proxy in proxies[::order]] == alone[::order]


@pytest.mark.parametrize("name", NAMES)
def test_a_caller_in_inference_mode_or_without_gradients_gets_the_same_score(name):
    model = made("in place")
    expected = score(name, "cnn", model)
    plane.cache_clear()
    with torch.inference_mode():
        assert score(name, "cnn", model) == expected
        assert torch.is_inference_mode_enabled()
    with torch.no_grad():
        assert score(name, "cnn", model) == expected
        assert not torch.is_grad_enabled()
    assert score(name, "cnn", model) == expected


@pytest.mark.parametrize("name", NAMES)
def test_double_precision_gives_the_same_score_twice(name):
    """In the precision in which the circle is kept, an in-place network must not write into it."""
    model, proxy = made("in place").double(), load_proxy(name)
    batch = batch_for("cnn", proxy)
    double = Batch(batch.inputs.double(), batch.targets)
    assert proxy(Probe(model, double)) == proxy(Probe(model, double))


@pytest.mark.parametrize("name", NAMES)
def test_single_and_double_precision_agree(name):
    """On a smooth network, to 1e-4: no ReLU whose side could hang on a rounding."""
    layers = [nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.SiLU(), nn.Conv2d(6, 6, 3), nn.GroupNorm(2, 6), nn.SiLU()]
    torch.manual_seed(0)
    single = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))
    proxy = load_proxy(name)
    batch = batch_for("cnn", proxy)
    values = (
        proxy(Probe(single, batch)),
        proxy(Probe(deepcopy(single).double(), Batch(batch.inputs.double(), batch.targets))),
    )
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    assert values[0] != 0


# --------------------------------------------------------------------------------------------------------- the failures


class NotANumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float("nan")


@pytest.mark.parametrize("place", [1, 7, 10], ids=["first feature", "pooled", "output"])
@pytest.mark.parametrize("name", [name for name in NAMES if load_proxy(name).needs])
def test_a_network_of_nans_never_gets_a_number(name, place):
    model = made("cnn").insert(place, NotANumber())
    try:
        outcome: float | str = score(name, "cnn", model)
    except Unscorable as reason:
        outcome = reason.kind
    assert outcome == "nan" or not isfinite(float(outcome))  # the engine records both as a failure


def test_every_proxy_states_its_facts():
    for name, proxy in PROXIES.items():
        assert proxy.name == name == proxy.function.__name__
        assert proxy.about.endswith(".")
        assert set(proxy.needs) <= {"data", "labels", "gradients"}
        assert proxy.samples >= 1
        assert proxy.measure == f"{name}@{proxy.version}"


DISCONNECTED = {
    "all none": "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    "output cut off": "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|none~0|none~1|none~2|",
    "dead node": "|none~0|+|none~0|nor_conv_3x3~1|+|none~0|skip_connect~1|nor_conv_1x1~2|",
}


@pytest.mark.parametrize("text", DISCONNECTED.values(), ids=DISCONNECTED)
@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.startswith(("dextr(", "dextr_curv")) or name == "dextr"]
)
def test_a_disconnected_network_is_said_to_be_one(name, text):
    with pytest.raises(Unscorable) as caught:
        score(name, "cnn", nb201(text))
    assert caught.value.kind == "disconnected"


def test_an_output_without_any_input_is_disconnected():
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ones(len(x), 5)

    with pytest.raises(Unscorable, match="disconnected"):
        score("dextr", "cnn", Constant())


def test_another_seed_is_another_circle():
    model = made("cnn")
    assert score("dextr_curvature", "cnn", model, seed=0) != score("dextr_curvature", "cnn", model, seed=1)
