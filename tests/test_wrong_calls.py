"""Wrong calls of the public functions raise a `UsageError` of one line and write nothing.

`tests/cli/wrong_commands.py` has the wrong commands of the command line.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import untrained as ut
from tests.cli.helpers import SKIP
from untrained.errors import UsageError

NAN = float("nan")
HUGE = 10**30


def make_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4))


def make_images(**options: Any) -> torch.Tensor:
    return torch.ones(4, 3, 2, 2, **options)


@ut.space(task=ut.Task("noise", (3, 2, 2), 4))
def tiny(choose: Any, task: ut.Task, width: int = 3) -> nn.Module:
    size = choose("size", (2, 3, 4))
    return nn.Sequential(
        nn.Flatten(), nn.Linear(12, size * width), nn.ReLU(), nn.Linear(size * width, 4)
    )


def make_compiled_part() -> nn.Module:
    return nn.Sequential(nn.Flatten(), torch.compile(nn.Linear(12, 4)))


class Answers(nn.Module):
    """A network that applies a function to its outputs."""

    def __init__(self, answer: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.answer = answer

    def forward(self, x: torch.Tensor) -> Any:
        return self.answer(self.layer(x.flatten(1)))


def make_meta_network() -> nn.Module:
    with torch.device("meta"):
        return Answers(lambda out: out)


def train_network(what: Any = None, data: Any = "digits", **options: Any) -> Any:
    network = Answers(lambda out: out) if what is None else what
    return ut.train(network, data, **{"input_shape": (1, 8, 8), "run": "run"} | options)


def search_tiny(**options: Any) -> Any:
    defaults: dict[str, Any] = {
        "space": tiny,
        "proxy": "params",
        "data": "noise",
        "budget": 2,
        "run": "run",
    }
    return ut.search(**defaults | options)


def load_tiny() -> Any:
    return ut.load_space("nasbench201")


Call = Callable[[], Any]
SCORE: dict[str, tuple[Call, str]] = {
    "nothing": (lambda: ut.score([], proxies="params"), "there is nothing to score: give a module"),
    "an empty tuple": (lambda: ut.score((), proxies="params"), "there is nothing to score"),
    "a number": (
        lambda: ut.score(5, proxies="params"),
        "an object of the type int is not a network; give a module, an architecture",
    ),  # type: ignore[arg-type]
    "None": (lambda: ut.score(None, proxies="params"), "of the type NoneType is not a network"),  # type: ignore[arg-type]
    "a number in a list": (
        lambda: ut.score([make_net(), 5], make_images(), proxies="params"),
        "of the type int is not a network",
    ),  # type: ignore[list-item]
    "a model on meta": (
        lambda: ut.score(make_meta_network(), torch.ones(4, 1, 8, 8), proxies="params"),
        "the network has no weights: layer.weight is on the device meta; build it on cpu",
    ),
    "a class": (
        lambda: ut.score(nn.Linear, make_images(), proxies="params"),
        "Linear is a class, not a network; give an object: Linear(...)",
    ),  # type: ignore[arg-type]
    "a scripted model": (
        lambda: ut.score(torch.jit.script(nn.Linear(3, 2)), torch.ones(4, 3), proxies="params"),
        "scripted or traced by torch.jit; give the nn.Module that it was made from",
    ),
    "a traced model": (
        lambda: ut.score(
            torch.jit.trace(nn.Linear(3, 2), torch.ones(4, 3)), torch.ones(4, 3), proxies="params"
        ),
        "scripted or traced by torch.jit",
    ),
    "a model with a scripted part": (
        lambda: ut.score(
            nn.Sequential(torch.jit.script(nn.Linear(3, 2))), torch.ones(4, 3), proxies="params"
        ),
        "scripted or traced by torch.jit",
    ),
    "a model with a compiled part": (
        lambda: ut.score(make_compiled_part(), make_images(), proxies="params"),
        "a part of the network is compiled by torch.compile; give the network without it",
    ),
    "bfloat16 inputs": (
        lambda: ut.score(make_net(), make_images(dtype=torch.bfloat16)),
        "the inputs are bfloat16, in which scores are not exact; give inputs.float() and model.float()",
    ),
    "float16 inputs": (
        lambda: ut.score(make_net(), make_images(dtype=torch.float16)),
        "the inputs are float16",
    ),
    "complex inputs": (
        lambda: ut.score(make_net(), make_images(dtype=torch.complex64)),
        "the inputs are complex numbers",
    ),
    "inputs on meta": (
        lambda: ut.score(make_net(), make_images(device="meta")),
        "the inputs are on the device meta, which holds no numbers; create them on cpu",
    ),
    "inputs without an axis": (
        lambda: ut.score(make_net(), torch.tensor(3.0)),
        "have the shape (), so there is no sample",
    ),
    "no inputs": (
        lambda: ut.score(make_net(), torch.ones(0, 3, 2, 2)),
        "have the shape (0, 3, 2, 2), so there is no",
    ),
    "sparse inputs": (
        lambda: ut.score(make_net(), make_images().to_sparse()),
        "sparse tensor; give inputs.to_dense()",
    ),
    "a list as data": (
        lambda: ut.score(make_net(), [[1.0, 2.0]], proxies="params"),  # type: ignore[arg-type]
        "give a tensor of inputs, or a pair (inputs, targets), such as torch.randn(8, 3, 32, 32)",
    ),
    "a list of tensors": (
        lambda: ut.score(make_net(), [make_images()], proxies="params"),
        "give a tensor of inputs, or a pair",
    ),  # type: ignore[arg-type]
    "a dict as data": (
        lambda: ut.score(make_net(), {"x": 1}, proxies="params"),
        "give a tensor of inputs, or a pair",
    ),  # type: ignore[arg-type]
    "a number as data": (
        lambda: ut.score(make_net(), 5, proxies="params"),
        "the inputs are 5; give a tensor of inputs",
    ),  # type: ignore[arg-type]
    "three tensors": (
        lambda: ut.score(
            make_net(), (make_images(), torch.ones(4), torch.ones(4)), proxies="params"
        ),  # type: ignore[arg-type]
        "data is a tuple of 3; give a tensor of inputs, or a pair (inputs, targets)",
    ),
    "an empty tuple of data": (
        lambda: ut.score(make_net(), (), proxies="params"),
        "data is a tuple of 0",
    ),  # type: ignore[arg-type]
    "text as targets": (
        lambda: ut.score(make_net(), (make_images(), "cat"), proxies="params"),
        "the targets are 'cat'; give",
    ),
    "too few targets": (
        lambda: ut.score(make_net(), (make_images(), torch.zeros(3)), proxies="params"),
        "there are 4 inputs and 3 targets; give one target per input",
    ),
    "one target": (
        lambda: ut.score(make_net(), (make_images(), torch.tensor(1)), proxies="params"),
        "4 inputs and no targets",
    ),
    "complex targets": (
        lambda: ut.score(
            make_net(), (make_images(), torch.zeros(4, dtype=torch.complex64)), proxies="params"
        ),
        "the targets are complex numbers; give labels",
    ),
    "targets on meta": (
        lambda: ut.score(
            make_net(), (make_images(), torch.zeros(4, device="meta")), proxies="params"
        ),
        "the targets are on the device meta",
    ),
    "an array of objects": (
        lambda: ut.score(make_net(), np.array([object()]), proxies="params"),
        "the inputs are an array of object; give one of float32 or int64",
    ),
    "an array of text": (
        lambda: ut.score(make_net(), np.array(["cat"]), proxies="params"),
        "the inputs are an array of <U3",
    ),
    "proxies=5": (
        lambda: ut.score(make_net(), make_images(), proxies=5),
        "proxies is 5; give names, such as ['dextr', 'naswot']",
    ),  # type: ignore[arg-type]
    "proxies=None": (
        lambda: ut.score(make_net(), make_images(), proxies=None),
        "proxies is None; give names",
    ),  # type: ignore[arg-type]
    "proxies=[]": (
        lambda: ut.score(make_net(), make_images(), proxies=[]),
        "name at least one proxy, such as dextr",
    ),
    "proxies=[5]": (
        lambda: ut.score(make_net(), make_images(), proxies=[5]),
        "5 is not a proxy; give its name, such as",
    ),  # type: ignore[list-item]
    "proxies=[None]": (
        lambda: ut.score(make_net(), make_images(), proxies=[None]),
        "None is not a proxy; give its name",
    ),  # type: ignore[list-item]
    "proxies=['dexter']": (
        lambda: ut.score(make_net(), make_images(), proxies=["dexter"]),
        "did you mean dextr",
    ),
    "proxies=['']": (
        lambda: ut.score(make_net(), make_images(), proxies=[""]),
        "a name is missing",
    ),
    "seeds=1.5": (
        lambda: ut.score(make_net(), make_images(), proxies="params", seeds=1.5),
        "seeds is 1.5; write a whole number",
    ),  # type: ignore[arg-type]
    "seeds='2'": (
        lambda: ut.score(make_net(), make_images(), proxies="params", seeds="2"),
        "seeds is '2'; write a whole number",
    ),  # type: ignore[arg-type]
    "seeds=None": (
        lambda: ut.score(make_net(), make_images(), proxies="params", seeds=None),
        "seeds is None",
    ),  # type: ignore[arg-type]
    "seeds=True": (
        lambda: ut.score(make_net(), make_images(), proxies="params", seeds=True),
        "seeds is True",
    ),
    "seeds=0": (
        lambda: ut.score(make_net(), make_images(), proxies="params", seeds=0),
        "seeds is 0; write a whole number from 1",
    ),
    "seeds=nan": (
        lambda: ut.score(make_net(), make_images(), proxies="params", seeds=NAN),
        "seeds is nan",
    ),  # type: ignore[arg-type]
    "device=None": (
        lambda: ut.score(make_net(), make_images(), proxies="params", device=None),
        "device None cannot be used",
    ),  # type: ignore[arg-type]
    "device=0": (
        lambda: ut.score(make_net(), make_images(), proxies="params", device=0),
        "device 0 cannot be used",
    ),  # type: ignore[arg-type]
    "device='meta'": (
        lambda: ut.score(make_net(), make_images(), proxies="params", device="meta"),
        "device 'meta' cannot be used",
    ),
    "device='cpu:7'": (
        lambda: ut.score(make_net(), make_images(), proxies="params", device="cpu:7"),
        "try cpu",
    ),
    "device='gpu'": (
        lambda: ut.score(make_net(), make_images(), proxies="params", device="gpu"),
        "device 'gpu' cannot be used",
    ),
    "num_classes=-3": (
        lambda: ut.score(make_net(), make_images(), proxies="params", num_classes=-3),
        "num_classes is -3; write a whole number from 1 to",
    ),
    "num_classes=0": (
        lambda: ut.score(make_net(), make_images(), proxies="params", num_classes=0),
        "num_classes is 0",
    ),
    "num_classes=2.5": (
        lambda: ut.score(make_net(), make_images(), proxies="params", num_classes=2.5),
        "num_classes is 2.5",
    ),  # type: ignore[arg-type]
    "num_classes=10**30": (
        lambda: ut.score(make_net(), make_images(), proxies="params", num_classes=HUGE),
        "num_classes is 10000",
    ),
    "input_shape=5": (
        lambda: ut.score(make_net(), proxies="params", input_shape=5),
        "invalid input shape 5; write",
    ),  # type: ignore[arg-type]
    "input_shape=(3, 0)": (
        lambda: ut.score(make_net(), proxies="params", input_shape=(3, 0)),
        "invalid input shape (3, 0)",
    ),
    "input_shape=(3, 2.0)": (
        lambda: ut.score(make_net(), proxies="params", input_shape=(3, 2.0)),
        "invalid input shape",
    ),  # type: ignore[arg-type]
    "input_shape=('3',)": (
        lambda: ut.score(make_net(), proxies="params", input_shape=("3",)),
        "invalid input shape ('3',)",
    ),  # type: ignore[arg-type]
    "input_shape=(10**30,)": (
        lambda: ut.score(make_net(), proxies="params", input_shape=(HUGE,)),
        "invalid input shape (1000",
    ),
    "no input shape": (
        lambda: ut.score(make_net(), proxies="params"),
        "the input shape of Sequential is unknown; add --input-shape",
    ),
    "data='cifr10'": (lambda: ut.score(SKIP, "cifr10", proxies="params"), "did you mean cifar10"),
    "data=''": (lambda: ut.score(SKIP, "", proxies="params"), "no data set is called ''"),
    "space=None": (
        lambda: ut.score(SKIP, proxies="params", space=None),
        "None is not a space; give its name",
    ),  # type: ignore[arg-type]
    "space=5": (
        lambda: ut.score(SKIP, proxies="params", space=5),
        "5 is not a space; give its name, such as",
    ),  # type: ignore[arg-type]
    "an aggregate of one": (
        lambda: ut.score(make_net(), make_images(), proxies="az_nas"),
        "compares networks with each other",
    ),
    "warm_up='most'": (lambda: ut.score(SKIP, "digits", proxies="params", warm_up="most"), "most"),
}

SPACE: dict[str, tuple[Call, str]] = {
    "load_space(None)": (
        lambda: ut.load_space(None),
        "None is not a space; give its name, such as",
    ),  # type: ignore[arg-type]
    "load_space(5)": (lambda: ut.load_space(5), "5 is not a space; give its name"),  # type: ignore[arg-type]
    "load_space('')": (lambda: ut.load_space(""), "a name is missing"),
    "load_space('nasbench')": (
        lambda: ut.load_space("nasbench"),
        "did you mean nasbench201 or nasbench101",
    ),
    "load_space(channels=0)": (
        lambda: ut.load_space("nasbench201(channels=0)"),
        "nasbench201(channels=0): channels must be a whole number from 1 to 65,536, such as channels=16",
    ),
    "load_space(channels=1.5)": (
        lambda: ut.load_space("nasbench201(channels=1.5)"),
        "channels must be a whole number",
    ),
    "with_options(channels='8')": (
        lambda: load_tiny().with_options(channels="8"),
        "channels must be a whole number",
    ),
    "with_options(channels=None)": (
        lambda: load_tiny().with_options(channels=None),
        "channels must be a whole number",
    ),
    "with_options(width=1.5) of a user's space": (
        lambda: tiny.with_options(width=1.5),
        "tiny(width=1.5): width must be a whole",
    ),
    "with_options(depth=2) of a user's space": (
        lambda: tiny.with_options(depth=2),
        "no option of tiny is called 'depth'",
    ),
    "mlp(depths='1')": (
        lambda: ut.load_space("mlp").with_options(depths="1"),
        "depths must be a list [...], each entry a",
    ),
    "mlp(depths=[])": (
        lambda: ut.load_space("mlp").with_options(depths=[]),
        "depths must be a list [...], each entry a",
    ),
    "darts(stem=moon)": (
        lambda: ut.load_space("darts(stem=moon)"),
        "no stem is called 'moon'; available: cifar",
    ),
    "sample(random.Random(0))": (
        lambda: load_tiny().sample(random.Random(0)),
        "is not a seed; give a whole number or numpy.random.default_rng(0)",
    ),
    "sample('0')": (lambda: load_tiny().sample("0"), "'0' is not a seed; give a whole number"),
    "sample(0.5)": (lambda: load_tiny().sample(0.5), "0.5 is not a seed; give a whole number"),
    "sample(True)": (lambda: load_tiny().sample(True), "True is not a seed"),
    "sample(-1)": (lambda: load_tiny().sample(-1), "seed is -1; write a whole number from 0 to"),
    "sample(2**64)": (
        lambda: load_tiny().sample(2**64),
        "seed is 18446744073709551616; write a whole number from 0",
    ),
    "sample(torch.Generator())": (lambda: load_tiny().sample(torch.Generator()), "is not a seed"),
    "sample(np.random)": (lambda: load_tiny().sample(np.random), "is not a seed"),
    "mutate('text')": (
        lambda: load_tiny().mutate(SKIP, 0),
        "is not an Arch; space.parse(text) and space.sample(seed) return one",
    ),
    "mutate(arch, 0.5)": (
        lambda: load_tiny().mutate(load_tiny().parse(SKIP), 0.5),
        "0.5 is not a seed",
    ),
    "mutate(None)": (lambda: load_tiny().mutate(None, 0), "None is not an Arch"),
    "cross(arch, None)": (
        lambda: load_tiny().cross(load_tiny().parse(SKIP), None, 0),
        "None is not an Arch",
    ),
    "build('text')": (
        lambda: load_tiny().build(SKIP),
        "is not an Arch; space.parse(text) and space.sample(seed) return one",
    ),
    "build(5)": (lambda: load_tiny().build(5), "5 is not an Arch"),
    "parse(5)": (
        lambda: load_tiny().parse(5),
        "5 is not an architecture; give an architecture string, such as '|",
    ),
    "parse(None)": (lambda: load_tiny().parse(None), "None is not an architecture"),
}

SEARCH: dict[str, tuple[Call, str]] = {
    "space=None": (lambda: search_tiny(space=None), "None is not a space; give its name, such as"),
    "space=5": (lambda: search_tiny(space=5), "5 is not a space; give its name"),
    "proxy=None": (lambda: search_tiny(proxy=None), "None is not a proxy; give its name"),
    "proxy=5": (lambda: search_tiny(proxy=5), "5 is not a proxy; give its name"),
    "strategy=None": (lambda: search_tiny(strategy=None), "None is not a name; give one as text"),
    "strategy=5": (lambda: search_tiny(strategy=5), "5 is not a name; give one as text"),
    "budget='3'": (
        lambda: search_tiny(budget="3"),
        "budget is '3'; write a whole number from 1 to",
    ),
    "budget=nan": (
        lambda: search_tiny(budget=NAN),
        "budget is nan; write a whole number from 1 to",
    ),
    "budget=1.5": (
        lambda: search_tiny(budget=1.5),
        "budget is 1.5; write a whole number from 1 to",
    ),
    "budget=3.0": (
        lambda: search_tiny(budget=3.0),
        "budget is 3.0; write a whole number from 1 to",
    ),
    "budget=inf": (lambda: search_tiny(budget=float("inf")), "budget is inf"),
    "budget=True": (lambda: search_tiny(budget=True), "budget is True"),
    "budget=0": (lambda: search_tiny(budget=0), "budget is 0; write a whole number from 1 to"),
    "budget=-1": (lambda: search_tiny(budget=-1), "budget is -1"),
    "budget=10**30": (lambda: search_tiny(budget=HUGE), "budget is 1000000"),
    "budget=[3]": (lambda: search_tiny(budget=[3]), "budget is [3]"),
    "time=5": (
        lambda: search_tiny(time=5),
        "invalid duration 5; write it as text: '90s', '10m' or '1h30m'",
    ),
    "time=''": (lambda: search_tiny(time=""), "invalid duration ''"),
    "time='soon'": (
        lambda: search_tiny(time="soon"),
        "invalid duration 'soon'; write 90s, 10m or 1h30m",
    ),
    "time_limit=5": (lambda: search_tiny(time_limit=5), "invalid duration 5"),
    "stable='3'": (
        lambda: search_tiny(stable="3"),
        "stable is '3'; write a whole number from 1 to",
    ),
    "stable=0": (lambda: search_tiny(stable=0), "stable is 0"),
    "top=0": (lambda: search_tiny(top=0), "top is 0; write a whole number from 1 to"),
    "top=None": (lambda: search_tiny(top=None), "top is None"),
    "seed=1.5": (lambda: search_tiny(seed=1.5), "seed is 1.5; write a whole number from 0 to"),
    "seed='0'": (lambda: search_tiny(seed="0"), "seed is '0'"),
    "seed=None": (lambda: search_tiny(seed=None), "seed is None"),
    "seed=-1": (lambda: search_tiny(seed=-1), "seed is -1; write a whole number from 0 to"),
    "seed=2**64": (lambda: search_tiny(seed=2**64), "seed is 18446744073709551616"),
    "seeds=0": (lambda: search_tiny(seeds=0), "seeds is 0; write a whole number from 1 to"),
    "seeds=1.5": (lambda: search_tiny(seeds=1.5), "seeds is 1.5"),
    "confirm=-1": (
        lambda: search_tiny(confirm=-1),
        "confirm is -1; write a whole number from 0 to",
    ),
    "confirm=1.5": (lambda: search_tiny(confirm=1.5), "confirm is 1.5"),
    "networks_per_batch=0": (
        lambda: search_tiny(networks_per_batch=0),
        "networks_per_batch is 0; write a whole number from 1 to",
    ),
    "networks_per_batch='2'": (
        lambda: search_tiny(networks_per_batch="2"),
        "networks_per_batch is '2'",
    ),
    "device=None": (
        lambda: search_tiny(device=None),
        "device None cannot be used on this machine; try cpu",
    ),
    "device='meta'": (lambda: search_tiny(device="meta"), "device 'meta' cannot be used"),
    "device='cpu:7'": (lambda: search_tiny(device="cpu:7"), "device 'cpu:7' cannot be used"),
    "data=None": (
        lambda: search_tiny(data=None),
        "data is None; give a name as text, such as 'digits'",
    ),
    "data=5": (lambda: search_tiny(data=5), "data is 5; give a name as text"),
    "data=5 without a space": (
        lambda: ut.search(data=5, budget=2),
        "data is 5; give a name as text",
    ),
    "data=None without a space": (
        lambda: ut.search(data=None, budget=2),
        "data is None; give a name as text",
    ),
    "data='nois'": (lambda: search_tiny(data="nois"), "did you mean noise"),
    "input_size=0": (
        lambda: search_tiny(input_size=0),
        "input_size is 0; write a whole number from 1 to",
    ),
    "input_size='8'": (lambda: search_tiny(input_size="8"), "input_size is '8'"),
    "run=5": (lambda: search_tiny(run=5), "run is 5; give a path as text, such as './folder'"),
    "run='a\\0b'": (lambda: search_tiny(run="a\0b"), "which is not a valid file name in UTF-8"),
    "run='\\udce9'": (
        lambda: search_tiny(run="run-\udce9"),
        "which is not a valid file name in UTF-8; choose another",
    ),
    "limits params=-1": (lambda: search_tiny(limits={"params": -1}), "max params cannot be -1"),
    "limits params='many'": (
        lambda: search_tiny(limits={"params": "many"}),
        "max params cannot be 'many'; write it like 2M or 600M",
    ),
    "limits params=nan": (lambda: search_tiny(limits={"params": NAN}), "max params cannot be nan"),
    "limits params=True": (
        lambda: search_tiny(limits={"params": True}),
        "max params cannot be True",
    ),
    "limits params=1": (
        lambda: search_tiny(limits={"params": 1}),
        "none of 1000 sampled architectures satisfies all limits",
    ),
    "limits latency='5ms@meta'": (
        lambda: search_tiny(limits={"latency": "5ms@meta"}),
        "device 'meta' cannot be used",
    ),
    "limits latency=5": (
        lambda: search_tiny(limits={"latency": 5}),
        "max latency cannot be 5; write it like 5ms",
    ),
    "screen='params', keep=2": (
        lambda: search_tiny(proxy="naswot", screen="params", keep=2),
        "at most 100%, not '2'",
    ),
    "screen='params', keep=None": (
        lambda: search_tiny(proxy="naswot", screen="params", keep=None),
        "invalid share None",
    ),
    "screen=5": (lambda: search_tiny(screen=5), "5 is not a list of names"),
    "also=5": (lambda: search_tiny(also=5), "5 is not a list of names"),
    "validate='training(epochs=0)'": (
        lambda: search_tiny(strategy="best_of_pool", validate="training(epochs=0)"),
        "accuracy(epochs=0): epochs must be a whole number from 1 to 65,536, such as epochs=3",
    ),
    "validate=5": (
        lambda: search_tiny(strategy="best_of_pool", validate=5),
        "5 is not a validation; type --validate",
    ),
    "nsga2 with the same objective": (
        lambda: search_tiny(strategy="nsga2", proxy="params", also="params"),
        "nsga2 needs different objectives, and params is named twice; use another --also, such as flops",
    ),
    "warm_up=5": (lambda: search_tiny(warm_up=5), "5"),
    "workers=0": (lambda: search_tiny(workers=0), "--workers must be a whole number of at least 1"),
}

TRAIN: dict[str, tuple[Call, str]] = {
    "what=None": (lambda: ut.train(None, "digits"), "NoneType"),  # type: ignore[arg-type]
    "what=5": (lambda: ut.train(5, "digits"), "int"),  # type: ignore[arg-type]
    "data=5": (lambda: train_network(data=5), "the inputs are 5"),
    "data=None": (lambda: train_network(data=None), "name the data to train on: --data digits"),
    "data='noise'": (lambda: train_network(data="noise"), "noise has no parts to train on"),
    "recipe=5": (lambda: train_network(recipe=5), "5 is not a name; give one as text"),
    "recipe='quik'": (
        lambda: train_network(recipe="quik"),
        "no recipe is called 'quik'; did you mean quick",
    ),
    "checkpoint_every=0": (
        lambda: train_network(checkpoint_every=0),
        "checkpoint_every is 0; write a whole number from 1 to",
    ),
    "checkpoint_every=-5": (lambda: train_network(checkpoint_every=-5), "checkpoint_every is -5"),
    "checkpoint_every=None": (
        lambda: train_network(checkpoint_every=None),
        "checkpoint_every is None",
    ),
    "checkpoint_every=1.5": (
        lambda: train_network(checkpoint_every=1.5),
        "checkpoint_every is 1.5",
    ),
    "epochs=0": (lambda: train_network(epochs=0), "epochs is 0; write a whole number from 1 to"),
    "epochs=1.5": (lambda: train_network(epochs=1.5), "epochs is 1.5"),
    "epochs='3'": (lambda: train_network(epochs="3"), "epochs is '3'"),
    "patience=0": (lambda: train_network(patience=0), "patience is 0"),
    "patience='2'": (lambda: train_network(patience="2"), "patience is '2'"),
    "seed=-1": (lambda: train_network(seed=-1), "seed is -1; write a whole number from 0 to"),
    "seed=2**64": (lambda: train_network(seed=2**64), "seed is 18446744073709551616"),
    "seed='0'": (lambda: train_network(seed="0"), "seed is '0'"),
    "time=5": (lambda: train_network(time=5), "invalid duration 5; write it as text"),
    "device=None": (lambda: train_network(device=None), "device None cannot be used"),
    "device='meta'": (lambda: train_network(device="meta"), "device 'meta' cannot be used"),
    "input_shape=(0,)": (lambda: train_network(input_shape=(0,)), "invalid input shape (0,)"),
    "run=5": (lambda: train_network(run=5), "run is 5; give a path as text"),
    "run='\\udce9'": (
        lambda: train_network(run="run-\udce9"),
        "which is not a valid file name in UTF-8",
    ),
    "a model that answers a dict": (
        lambda: train_network(Answers(lambda out: {"classes": out})),
        "the network cannot be trained: the model returns dict, from which no logits can be read",
    ),
    "a model that answers nothing": (
        lambda: train_network(Answers(lambda out: None)),
        "the model returns NoneType",
    ),
    "a model of complex answers": (
        lambda: train_network(Answers(lambda out: out + 1j)),
        "the model returns complex numbers",
    ),
    "a model on meta": (
        lambda: train_network(make_meta_network()),
        "layer.weight is on the device meta; build it on cpu",
    ),
    "a scripted model": (
        lambda: train_network(torch.jit.script(nn.Linear(3, 2))),
        "scripted or traced by torch.jit",
    ),
    "a model of other inputs": (
        lambda: train_network(make_net()),
        "the network cannot read samples of (1, 8, 8)",
    ),
    "a model of other classes": (
        lambda: train_network(nn.Sequential(nn.Flatten(), nn.Linear(64, 3))),
        "the network returns (2, 3), but digits needs (2, 10)",
    ),
    "a model that learns nothing": (
        lambda: train_network(Answers(lambda out: out).requires_grad_(False)),
        "nothing to learn",
    ),
    "a mistyped folder": (
        lambda: ut.train("rum-1", "digits"),
        "no run folder is called rum-1, and nasbench201",
    ),
    "inputs without targets": (
        lambda: ut.train(make_net(), make_images()),
        "there are no targets to train on; give a pair (inputs, targets)",
    ),
    "inputs and targets as two arguments": (
        lambda: ut.train(make_net(), make_images(), torch.arange(4)),  # type: ignore[arg-type]
        "give inputs and labels as one argument",
    ),
    "targets of another number": (
        lambda: ut.train(make_net(), (make_images(), torch.arange(3))),
        "there are 4 inputs and 3 targets; give one target per input",
    ),
    "too few samples of a class": (
        lambda: ut.train(make_net(), (make_images(), torch.arange(4))),
        "too few samples to train on",
    ),
    "a model of fewer classes than the targets": (
        lambda: ut.train(make_net(), (make_images().repeat(20, 1, 1, 1), torch.arange(80) % 5)),
        "the network returns (2, 4), but tensor needs (2, 5)",
    ),
    "a list as inputs": (
        lambda: ut.train(make_net(), [[1.0, 2.0], [3.0, 4.0]]),
        "give a tensor of inputs, or a pair (inputs, targets)",
    ),
}

OTHERS: dict[str, tuple[Call, str]] = {
    "export(None)": (lambda: ut.export(None, "out"), "NoneType"),  # type: ignore[arg-type]
    "export(5)": (lambda: ut.export(5, "out"), "int"),  # type: ignore[arg-type]
    "export(out=None)": (lambda: ut.export(make_net(), None), "out is None; give a path as text"),  # type: ignore[arg-type]
    "export(out=5)": (lambda: ut.export(make_net(), 5), "out is 5; give a path as text"),  # type: ignore[arg-type]
    "export(input_shape=(0,))": (
        lambda: ut.export(make_net(), "out", input_shape=(0,)),
        "invalid input shape (0,)",
    ),
    "export(num_classes=-3)": (
        lambda: ut.export(make_net(), "out", input_shape=(3, 2, 2), num_classes=-3),
        "num_classes is -3; write a whole number from 1 to",
    ),
    "export(weights=5)": (
        lambda: ut.export(make_net(), "out", weights=5),
        "weights is 5; give a path",
    ),  # type: ignore[arg-type]
    "export of a model on meta": (
        lambda: ut.export(make_meta_network(), "out", input_shape=(1, 8, 8)),
        "the network has no weights: layer.weight is on the device meta; build it on cpu",
    ),
    "export of a scripted model": (
        lambda: ut.export(torch.jit.script(nn.Linear(3, 2)), "out", input_shape=(3,)),
        "scripted or traced by torch.jit",
    ),
    "export of a model that answers a dict": (
        lambda: ut.export(Answers(lambda out: {"classes": out}), "out", input_shape=(1, 8, 8)),
        "returns a dict for two samples; to export it, it must return the shape (2, 1)",
    ),
    "export of a mistyped folder": (
        lambda: ut.export("rum-1", "out"),
        "no run folder is called rum-1",
    ),
    "report(None)": (lambda: ut.report(None), "folder is None; give a path as text"),  # type: ignore[arg-type]
    "report(5)": (lambda: ut.report(5), "folder is 5; give a path as text"),  # type: ignore[arg-type]
    "report('absent')": (
        lambda: ut.report("absent"),
        "absent is not a run folder: it has no run.json",
    ),
    "bench(samples=2)": (
        lambda: ut.bench(samples=2),
        "samples is 2; write a whole number from 3 to",
    ),
    "bench(samples=3.5)": (lambda: ut.bench(samples=3.5), "samples is 3.5"),  # type: ignore[arg-type]
    "bench(seeds=None)": (lambda: ut.bench(seeds=None), "seeds is None"),  # type: ignore[arg-type]
    "bench(seed=2**64)": (lambda: ut.bench(seed=2**64), "seed is 18446744073709551616"),
    "bench(device=None)": (lambda: ut.bench(device=None), "device None cannot be used"),  # type: ignore[arg-type]
    "bench(networks_per_batch=0)": (
        lambda: ut.bench(networks_per_batch=0),
        "networks_per_batch is 0",
    ),
    "bench(worker=2)": (
        lambda: ut.bench(worker=2),  # type: ignore[call-arg]
        "no option of bench is called 'worker'; did you mean workers",
    ),
    "bench(space=None)": (lambda: ut.bench(None), "None is not a space; give its name"),  # type: ignore[arg-type]
    "bench(proxy='dexter')": (
        lambda: ut.bench(proxy="dexter"),
        "no proxy is called 'dexter'; did you mean dextr",
    ),
    "bench(proxy=5)": (lambda: ut.bench(proxy=5), "5 is not a list of names"),  # type: ignore[arg-type]
    "bench(run=5)": (lambda: ut.bench(run=5), "run is 5; give a path"),  # type: ignore[arg-type]
    "calibrate(trainings=3)": (
        lambda: ut.calibrate(trainings=3),
        "trainings is 3; write a whole number from 4 to",
    ),
    "calibrate(trainings='9')": (lambda: ut.calibrate(trainings="9"), "trainings is '9'"),  # type: ignore[arg-type]
    "calibrate(epochs=0)": (
        lambda: ut.calibrate(epochs=0),
        "epochs is 0; write a whole number from 1 to",
    ),
    "calibrate(epochs=1.5)": (lambda: ut.calibrate(epochs=1.5), "epochs is 1.5"),  # type: ignore[arg-type]
    "calibrate(samples=9)": (
        lambda: ut.calibrate(samples=9),
        "samples is 9; write a whole number from 10 to",
    ),
    "calibrate(samples=True)": (lambda: ut.calibrate(samples=True), "samples is True"),
    "calibrate(seed=-1)": (lambda: ut.calibrate(seed=-1), "seed is -1"),
    "calibrate(space=None)": (lambda: ut.calibrate(None), "None is not a space"),  # type: ignore[arg-type]
    "calibrate(device='meta')": (
        lambda: ut.calibrate(device="meta"),
        "device 'meta' cannot be used",
    ),
    "calibrate(data=5)": (lambda: ut.calibrate(data=5), "data is 5; give a name as text"),  # type: ignore[arg-type]
    "reproduce('dextr-table-99')": (
        lambda: ut.reproduce("dextr-table-99"),
        "did you mean dextr-table-",
    ),
    "reproduce(None)": (lambda: ut.reproduce(None), "is called None; available: "),  # type: ignore[arg-type]
    "reproduce(samples=2)": (
        lambda: ut.reproduce("dextr-table-4", samples=2),
        "samples is 2; write a whole number",
    ),
    "reproduce(seeds=0)": (lambda: ut.reproduce("dextr-table-4", seeds=0), "seeds is 0"),
    "reproduce(batch='2')": (lambda: ut.reproduce("dextr-table-4", batch="2"), "batch is '2'"),  # type: ignore[arg-type]
    "reproduce(device='meta')": (
        lambda: ut.reproduce("dextr-table-4", device="meta"),
        "device 'meta' cannot be",
    ),
}

GROUPS = {"score": SCORE, "space": SPACE, "search": SEARCH, "train": TRAIN, "others": OTHERS}
WRONG = {f"{group}: {name}": row for group, rows in GROUPS.items() for name, row in rows.items()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.jit warns of itself
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused_in_one_line_that_says_what_to_give(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UNTRAINED_DATA", raising=False)
    (tmp_path / "run-1").mkdir()
    call, fragment = WRONG[name]
    with pytest.raises(UsageError) as caught:
        call()
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list_written_files(tmp_path) == [tmp_path / "run-1"]


def list_written_files(folder: Path) -> list[Path]:
    """List the written files, without the file that ONNX Runtime writes when it is imported."""
    return [
        path
        for path in folder.rglob("*")
        if "Microsoft" not in str(path) and path != folder / "cache"
    ]


def test_there_are_at_least_550_wrong_calls_and_commands():
    from tests.cli import wrong_commands

    assert len(WRONG) + len(wrong_commands.WRONG_COMMANDS) >= 550


def test_complex_outputs_are_a_failure_of_the_network():
    (record,) = ut.score(
        Answers(lambda out: out + 1j), torch.ones(4, 1, 8, 8), proxies="naswot"
    ).records
    assert record.value is None
    assert (
        str(record.error)
        == "unsupported: the model returns complex numbers; let it return real ones, such as .abs()"
    )


def test_a_network_that_calls_sys_exit_is_a_failure():
    def call_exit(out: torch.Tensor) -> torch.Tensor:
        raise SystemExit(3)

    (record,) = ut.score(Answers(call_exit), torch.ones(4, 1, 8, 8), proxies="naswot").records
    assert record.value is None
    assert "SystemExit" in str(record.error)


def test_a_compiled_model_has_the_score_of_the_original():
    model = make_net()
    inputs = torch.randn(4, 3, 2, 2)
    (plain,) = ut.score(model, inputs, proxies="naswot").records
    (compiled,) = ut.score(torch.compile(model), inputs, proxies="naswot").records  # type: ignore[arg-type]
    assert compiled.value == plain.value


def test_arrays_have_the_scores_of_tensors():
    model = make_net()
    inputs = torch.randn(4, 3, 2, 2)
    targets = torch.tensor([0, 1, 2, 3])
    (of_tensors,) = ut.score(model, (inputs, targets), proxies="snip").records
    (of_arrays,) = ut.score(model, (inputs.numpy(), targets.numpy()), proxies="snip").records
    assert of_arrays.value == of_tensors.value
    (of_array,) = ut.score(model, inputs.numpy()).records
    (of_tensor,) = ut.score(model, inputs).records
    assert of_array.value == of_tensor.value
    (reversed_,) = ut.score(
        model, np.ascontiguousarray(inputs.numpy())[::-1], proxies="naswot"
    ).records
    assert reversed_.value is not None


def test_a_sample_can_use_an_integer_a_generator_or_no_seed():
    tiny_space = load_tiny()
    assert (
        tiny_space.sample(3)
        == tiny_space.sample(3)
        == tiny_space.sample(np.random.default_rng(3))
        == tiny_space.sample(np.int64(3))
    )
    assert len({tiny_space.sample(seed) for seed in range(10)}) > 1
    assert tiny_space.sample() in tiny_space
    arch = tiny_space.sample(0)
    assert tiny_space.mutate(arch, 1) == tiny_space.mutate(arch, np.random.default_rng(1)) != arch
