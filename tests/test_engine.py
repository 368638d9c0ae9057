"""The engine: what the store keeps, what a failure becomes, what a score depends on, and all that `score` takes."""

import random
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import untrained
from untrained import Arch, Batch, Probe, Record, Task, score
from untrained._load import UserCodeError
from untrained.engine import ProxyEvaluator, Store
from untrained.engine.score import DEFAULT_DATA
from untrained.engine.store import key_of
from untrained.errors import Unscorable, UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.types import Failure

TASK = Task("noise", (3, 8, 8), 4)
ARCH = Arch("tiny", (("width", 2), ("kernel", 3)), "width=2,kernel=3")
RECORD = Record(ARCH, "mine@1", TASK, 0, 1.5, data="d", build_seconds=0.25, measure_seconds=0.5)
CONV, NONE = "nor_conv_3x3", "none"


def nb201(*ops: str) -> str:
    return "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*ops)


@untrained.space(task=TASK)
def tiny(choose: Any, task: Task) -> nn.Module:
    width, kernel = choose("width", (2, 3, 4)), choose("kernel", (1, 3))
    conv = nn.Conv2d(task.input_shape[0], width, kernel, padding=kernel // 2)
    return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(width * 64, task.num_classes))


def judge(function: Callable[..., Any], **facts: Any) -> Proxy:
    return untrained.proxy(**facts)(function)


class Counter:
    """A proxy that knows how often it was asked."""

    def __init__(self, **facts: Any) -> None:
        self.calls = 0
        self.proxy = judge(self._count, **facts)

    def _count(self, probe: Probe) -> float:
        self.calls += 1
        return float(probe.params)


def weight_sum(probe: Probe) -> float:
    return sum(float(p.detach().double().sum()) for p in probe.model.parameters())


def value(records: list[Record]) -> float:
    (record,) = records
    assert record.value is not None, record.error
    return record.value


def failure(records: list[Record]) -> Failure:
    (record,) = records
    assert record.error is not None, record.value
    return record.error


# ------------------------------------------------------------------------------------------------------- the store

texts = st.text(max_size=12)
genes = st.lists(st.tuples(texts, st.integers(-9, 2**40) | st.floats(allow_nan=False) | texts), max_size=4).map(tuple)
outcomes = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: {"value": value}),
    st.builds(Failure, st.sampled_from(["nan", "oom", "error"]), texts).map(lambda error: {"error": error}),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(genes, texts, outcomes, st.lists(st.integers(1, 512), max_size=3), st.integers(0, 2**31))
def test_a_record_comes_back_as_it_was_written(tmp_path_factory, genes, text, outcome, shape, seed):
    task = Task(text, tuple(shape), 7, "mse")
    record = Record(Arch("s", genes, text), "p(a=1)@2", task, seed, **outcome, data="f", init="x", dtype="float64")
    record = replace(record, device="cuda", build_seconds=0.1, measure_seconds=1e-9)
    with Store(tmp_path_factory.getbasetemp() / f"{uuid4().hex}.sqlite") as store:
        store.add([record])
        (back,) = store
        assert back == record == store.get(key_of(record))
        assert str(back.arch) == str(record.arch)
        assert [type(choice) for _, choice in back.arch.genes] == [type(choice) for _, choice in genes]


CHANGES: dict[str, Any] = {
    "arch": Arch("tiny", (("width", 3), ("kernel", 3)), "width=3,kernel=3"),
    "space": Arch("other", ARCH.genes, ARCH.text),
    "measure": "mine@2",
    "task": replace(TASK, num_classes=5),
    "input shape": replace(TASK, input_shape=(3, 8, 9)),
    "loss": replace(TASK, loss="mse"),
    "data": "e",
    "seed": 1,
    "init": "kaiming",
    "dtype": "float64",
    "device": "cuda",
}
FIELDS = {"space": "arch", "input shape": "task", "loss": "task"}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_determines_a_value_is_part_of_its_key(tmp_path, name):
    other = replace(RECORD, **{FIELDS.get(name, name): CHANGES[name]}, value=2.5)
    with Store(tmp_path / "s.sqlite") as store:
        store.add([RECORD])
        assert store.get(key_of(other)) is None
        store.add([other])
        assert len(store) == 2
        assert (store.get(key_of(RECORD)), store.get(key_of(other))) == (RECORD, other)


def test_seconds_and_values_are_not_part_of_the_key_and_the_first_record_stays(tmp_path):
    later = replace(RECORD, value=9.0, build_seconds=7.0, measure_seconds=7.0)
    failed = replace(RECORD, value=None, error=Failure("nan"))
    with Store(tmp_path / "s.sqlite") as store:
        store.add([RECORD])
        store.add([later, failed])
        assert list(store) == [RECORD]


def test_records_are_kept_in_the_order_of_writing_and_outlive_the_process(tmp_path):
    records = [replace(RECORD, seed=seed) for seed in (5, 1, 3)]
    with Store(tmp_path / "new" / "folder" / "s.sqlite") as store:
        store.add(records)
    with Store(tmp_path / "new" / "folder" / "s.sqlite") as store:
        assert list(store) == records


def test_records_are_written_all_or_none(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(sqlite3.Error):
            store.add([RECORD, replace(RECORD, seed=object())])
        assert len(store) == 0


def test_two_processes_may_write_the_same_store(tmp_path):
    with Store(tmp_path / "s.sqlite") as one, Store(tmp_path / "s.sqlite") as two:
        one.add([RECORD])
        two.add([replace(RECORD, value=7.0), replace(RECORD, seed=1)])
        assert list(one) == [RECORD, replace(RECORD, seed=1)]


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def _damaged(path: Path) -> None:
    path.write_bytes(b"this is no database, " * 100)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE records (something TEXT)")
    db.close()


@pytest.mark.parametrize(
    ("spoil", "why"), [(_newer, "version 99"), (_damaged, "not a database"), (_foreign, "already exists")]
)
def test_a_file_that_is_no_store_of_ours_is_named_and_left_alone(tmp_path, spoil, why):
    path = tmp_path / "s.sqlite"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=why) as caught:
        Store(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes()[100:] == before[100:]  # the header may count a change of journal mode


def _a_file(path: Path) -> None:
    path.write_text("a file where the folder should be")


def _read_only(path: Path) -> None:
    path.mkdir(mode=0o555)
    try:
        (path / "probe").touch()
    except OSError:
        return
    pytest.skip("this user may write everywhere")


@pytest.mark.parametrize("make", [_a_file, _read_only])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, make):
    make(tmp_path / "folder")
    with pytest.raises(UsageError, match="cannot be used as a store") as caught:
        Store(tmp_path / "folder" / "s.sqlite")
    assert str(tmp_path / "folder" / "s.sqlite") in str(caught.value)


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be used as a store") as caught:
        Store(tmp_path)
    assert str(tmp_path) in str(caught.value)


# ------------------------------------------------------------------------------- what is known is not computed again


def test_a_record_that_exists_is_not_computed_again(tmp_path):
    counter, arch = Counter(), nb201(*[CONV] * 6)
    first = score(arch, counter.proxy, "noise", store=tmp_path / "s.sqlite")
    assert (counter.calls, len(first)) == (1, 1)
    assert score(arch, counter.proxy, "noise", store=tmp_path / "s.sqlite") == first  # seconds too: it is that record
    assert counter.calls == 1
    both = score(arch, counter.proxy, "noise", seeds=2, store=str(tmp_path / "s.sqlite"))
    assert (counter.calls, both[0]) == (2, first[0])
    score(arch, counter.proxy, "photos", store=tmp_path / "s.sqlite")
    assert counter.calls == 3


def test_a_new_store_is_filled_and_an_open_one_stays_open(tmp_path):
    """A store knows its length, so an empty one is false in a condition: it must be filled all the same."""
    with Store(tmp_path / "s.sqlite") as store:
        assert len(store) == 0
        records = score(nb201(*[CONV] * 6), ("params", "flops"), store=store)
        assert list(store) == records


def test_a_failure_is_kept_like_a_value(tmp_path):
    calls = []

    def fails(probe: Probe) -> float:
        calls.append(probe)
        return float("nan")

    for _ in range(2):
        assert failure(score(nb201(*[CONV] * 6), judge(fails), store=tmp_path / "s.sqlite")).kind == "nan"
    assert len(calls) == 1


def test_a_new_version_of_a_proxy_is_another_measure(tmp_path):
    old, new = Counter(version=1), Counter(version=2)
    for proxy in (old.proxy, new.proxy):
        score(nb201(*[CONV] * 6), proxy, store=tmp_path / "s.sqlite")
    assert (old.calls, new.calls) == (1, 1)


def test_networks_of_the_users_own_are_never_read_from_a_store(tmp_path):
    """They may change under their name."""
    counter = Counter()
    for width in (2, 3):
        records = score(nn.Linear(8, width), counter.proxy, torch.zeros(1, 8), store=tmp_path / "s.sqlite")
        assert value(records) == 9 * width
        assert (
            value(score("width=2,kernel=1", counter.proxy, data="noise", space=tiny, store=tmp_path / "s.sqlite"))
            == 8 + 516
        )
    assert counter.calls == 4
    with Store(tmp_path / "s.sqlite") as store:
        assert len(store) == 0


# ------------------------------------------------------------------------------------------- failures are values


def _raise(error: BaseException) -> Callable[[Probe], float]:
    def fails(probe: Probe) -> float:
        raise error

    return fails


FAILURES: dict[str, tuple[Callable[[Probe], Any], str, str]] = {
    "nan": (lambda probe: float("nan"), "nan", "not a number"),
    "inf": (lambda probe: float("inf"), "inf", "infinite"),
    "minus inf": (lambda probe: torch.tensor(-torch.inf), "inf", "infinite"),
    "said so": (_raise(Unscorable("disconnected", "no way through")), "disconnected", "no way through"),
    "unsupported": (_raise(Unscorable("unsupported", "cummax has no rule")), "unsupported", "cummax"),
    "derivative": (_raise(RuntimeError("derivative for aten::foo is not implemented")), "unsupported", "aten::foo"),
    "error": (lambda probe: 1 / 0, "error", "ZeroDivisionError: division by zero"),
    "no number": (lambda probe: None, "error", "TypeError"),
    "no message": (_raise(ValueError()), "error", "ValueError"),
    "many lines": (_raise(ValueError("first\nsecond")), "error", "ValueError: first (fails, line"),
    "memory": (_raise(MemoryError()), "oom", "MemoryError"),
    "gpu memory": (_raise(torch.OutOfMemoryError("tried to allocate 2 GiB")), "oom", "tried to allocate 2 GiB"),
    "cpu memory": (_raise(RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes")), "oom", "8 bytes"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_goes_wrong_with_a_network_is_its_record_and_nothing_else(name):
    function, kind, detail = FAILURES[name]
    failed, fine = score(ARCH, (judge(function), "params"), data="noise", space=tiny)
    assert failed.value is None
    assert failed.error.kind == kind
    assert detail in failed.error.detail
    assert "\n" not in str(failed.error)
    assert fine.value == 2 * (27 + 1) + 4 * (128 + 1)  # by hand: a convolution of two 3x3x3 filters, a linear layer


def test_a_cell_without_a_path_is_disconnected():
    dextr, params = score(nb201(*[NONE] * 6), ("dextr", "params"))
    assert dextr.error.kind == "disconnected"
    assert params.value > 0


class Distances(nn.Module):
    """`cdist` has no Taylor rule of ours, and torch cannot differentiate it twice."""

    def __init__(self) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(4, 12))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cdist(x.flatten(1), self.centres)


def test_a_function_that_no_way_can_differentiate_is_unsupported_by_name():
    error = failure(score(Distances(), torch.randn(1, 3, 2, 2)))
    assert error.kind == "unsupported"
    assert "cdist" in error.detail


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UsageError("wrong variant"), SystemExit(3)])
def test_ctrl_c_and_wrong_usage_are_no_failures_of_a_network(error):
    with pytest.raises(type(error)):
        score(ARCH, judge(_raise(error)), data="noise", space=tiny)


def test_a_network_that_cannot_be_built_fails_every_proxy_and_the_next_one_is_judged():
    @untrained.space(task=TASK)
    def fragile(choose: Any, task: Task) -> Any:
        width = choose("width", (0, 2))

        def make() -> nn.Module:
            if not width:
                raise ValueError("no width")
            return nn.Sequential(nn.Flatten(), nn.Linear(192, width))

        return make

    records = score(["width=0", "width=2"], ("params", "flops"), space=fragile)
    assert [r.error and r.error.kind for r in records] == ["error", "error", None, None]
    assert "ValueError: no width (make, line" in str(records[0].error)
    assert [r.value for r in records[2:]] == [193 * 2, 192 * 2]


def test_a_model_whose_forward_fails_is_a_record_with_its_reason():
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (1x8 and 9x2)")

    error = failure(score(Broken(), torch.zeros(2, 8)))
    assert error.kind == "error"
    assert "cannot be multiplied (1x8 and 9x2) (forward, line" in error.detail


# ----------------------------------------------------------------------------------------------------- honest cost


def test_seconds_are_told_apart_and_add_up_to_no_more_than_the_clock():
    @untrained.space(task=TASK)
    def slow(choose: Any, task: Task) -> Any:
        width = choose("width", (2,))

        def make() -> nn.Module:
            time.sleep(0.06)
            return nn.Sequential(nn.Flatten(), nn.Linear(192, width))

        return make

    def sleepy(probe: Probe) -> float:
        time.sleep(0.03)
        return 1.0

    start = time.perf_counter()
    records = score("width=2", (judge(sleepy), "params"), space=slow)
    wall = time.perf_counter() - start
    slept, params = records
    assert slept.measure_seconds >= 0.03 > params.measure_seconds >= 0
    assert sum(r.build_seconds for r in records) >= 0.06  # two proxies on one network share what it cost to build
    assert slept.build_seconds == params.build_seconds
    assert sum(r.build_seconds + r.measure_seconds for r in records) <= wall


# ------------------------------------------------------------------------------------------- the same answer twice


def archs(*texts: str) -> list[Arch]:
    return [tiny.parse(text) for text in texts]


def test_the_order_of_work_and_the_company_change_no_value():
    a, b = archs("width=2,kernel=3", "width=4,kernel=1")
    weights = judge(weight_sum)
    alone = [value(score(arch, "dextr", data="noise", space=tiny)) for arch in (a, b)]
    for order in ([a, b], [b, a], [b, b, a]):
        records = score(order, ("params", weights, "dextr", "flops"), data="noise", space=tiny, seeds=2)
        found = {(r.arch, r.proxy, r.seed): r.value for r in records}
        assert [found[arch, "dextr", 0] for arch in (a, b)] == alone
        assert found[a, "weight_sum", 0] == value(score(a, weights, data="noise", space=tiny))
        assert found[a, "weight_sum", 0] != found[a, "weight_sum", 1]
        assert found[a, "weight_sum", 0] != found[b, "weight_sum", 0]


def test_dextr_of_a_benchmark_network_does_not_depend_on_its_companions():
    arch = nb201(CONV, "skip_connect", NONE, "nor_conv_1x1", "avg_pool_3x3", CONV)
    alone = value(score(arch, "dextr"))
    together = {r.proxy: r.value for r in score(arch, ("dextr", "params", "flops"))}
    assert together["dextr"] == alone
    reversed_ = {r.proxy: r.value for r in score(arch, ("flops", "params", "dextr"))}
    assert reversed_ == together


def test_weights_follow_the_architecture_and_the_seed_and_not_the_state_of_the_machine():
    first = value(score(ARCH, judge(weight_sum), data="noise", space=tiny))
    torch.manual_seed(1234)
    random.seed(1234)
    assert value(score(ARCH, judge(weight_sum), data="noise", space=tiny)) == first


def random_states() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())  # noqa: NPY002


def test_global_randomness_is_left_alone(user_file):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(12, 4))
    before = random_states()
    score(ARCH, ("dextr", "params"), data="noise", space=tiny)
    score(model, torch.ones(2, 3, 2, 2))
    score(f"{user_file}:make", "dextr", input_shape=(3, 8, 8), seeds=2)
    score(f"{user_file}:numpy_weights", "params", input_shape=(3, 8, 8))
    assert random_states() == before


def test_proxies_that_look_at_equally_many_samples_share_a_batch_and_others_do_not():
    seen: dict[str, Tensor] = {}

    def look(name: str, samples: int) -> Proxy:
        def sees(probe: Probe) -> float:
            seen[name] = probe.batch.inputs
            return float(len(probe.batch))

        return judge(sees, samples=samples)

    records = score(ARCH, [look("one", 1), look("other", 1), look("four", 4)], data="noise", space=tiny)
    assert [r.value for r in records] == [1, 1, 4]
    assert records[0].data == records[1].data != records[2].data
    assert torch.equal(seen["one"], seen["other"])
    assert torch.equal(seen["one"], seen["four"][:1])  # a small batch is the head of a large one


def test_the_options_of_a_proxy_may_be_lists():
    sum_of = judge(lambda probe, of=(): float(sum(of)))
    first, second = score(ARCH, [sum_of.configured(of=[1, 2]), sum_of.configured(of=[3])], "noise", space=tiny)
    assert (first.value, second.value) == (3, 3)
    assert first.measure != second.measure


def test_evaluators_answer_one_architecture_at_a_time_in_the_order_of_proxies_and_seeds():
    source = untrained.data.load("noise", TASK)
    judges = [load_proxy("params"), load_proxy("flops")]
    evaluate = ProxyEvaluator(lambda arch: tiny.build(arch, TASK), source, judges, seeds=(3, 1))
    answers = list(evaluate(archs("width=2,kernel=3", "width=4,kernel=1")))
    assert [len({r.arch for r in answer}) for answer in answers] == [1, 1]
    assert [(r.proxy, r.seed) for r in answers[0]] == [("params", 3), ("flops", 3), ("params", 1), ("flops", 1)]


# ----------------------------------------------------------------------------------------------- score anything

NET = """
    import numpy as np
    import torch
    from torch import nn
    from helper_beside_the_net import WIDTH

    def make():
        return nn.Sequential(nn.Conv2d(3, WIDTH, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def numpy_weights():
        model = make()
        torch.nn.init.constant_(model[0].weight, np.random.rand())
        return model

    def inner():
        raise ValueError("the weights are elsewhere")

    def boom():
        return inner()

    def number():
        return 3

    three = 3

    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("no forward today")
"""


@pytest.fixture
def user_file(tmp_path, monkeypatch) -> Path:
    """A file of the user's own, with another beside it that it imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "helper_beside_the_net", raising=False)
    (tmp_path / "helper_beside_the_net.py").write_text("WIDTH = 4\n")
    (tmp_path / "net.py").write_text(dedent(NET))
    return tmp_path / "net.py"


def cnn() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(4, 5))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(tokens).mean(1))


def transformer() -> nn.Module:
    torch.manual_seed(0)
    return Transformer()


@pytest.mark.parametrize(("make", "shape"), [(cnn, (2, 3, 16, 16)), (transformer, (2, 5, 8))])
def test_the_short_form_judges_the_weights_a_model_has(make, shape):
    model, inputs = make(), torch.randn(shape)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    (record,) = score(model, inputs)
    expected = load_proxy("dextr")(Probe(model, Batch(inputs[:1], torch.zeros(1))))
    assert (record.value, record.proxy) == (expected, "dextr")
    assert record.value > 0
    assert record.task.input_shape == shape[1:]
    assert record.task.num_classes == list(model.modules())[-1].out_features
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        next(model.parameters()).mul_(3)
    assert value(score(model, inputs)) != expected


def test_the_size_of_a_transformer_is_counted_by_hand():
    """Attention: three 8x8 matrices in, one out; feed-forward 8x16 and 16x8; two norms; head 8x3; all with biases."""
    params = value(score(transformer(), "params", torch.zeros(1, 5, 8)))
    assert params == 4 * (64 + 8) + (128 + 16) + (128 + 8) + 2 * 16 + 27


def test_inputs_and_targets_are_what_the_proxy_sees():
    model, inputs, targets = nn.Linear(6, 4), torch.randn(5, 6), torch.tensor([3, 1, 0, 2, 2])
    loss = judge(lambda probe: probe.loss, samples=5)
    expected = float(F.cross_entropy(model(inputs), targets).detach())
    assert value(score(model, loss, (inputs, targets))) == pytest.approx(expected, rel=1e-6)
    assert value(score(model, loss, (inputs, targets.flip(0)))) != pytest.approx(expected, rel=1e-3)


def test_targets_are_drawn_where_there_are_none_and_stay_within_the_outputs():
    seen = []
    judge_ = judge(lambda probe: seen.append(probe.batch.targets) or 1.0, samples=64)
    score(nn.Linear(6, 3), judge_, torch.randn(64, 6))
    score(nn.Linear(6, 3), judge_, torch.randn(64, 6))
    assert set(seen[0].tolist()) == {0, 1, 2}
    assert torch.equal(seen[0], seen[1])


def test_a_list_may_mix_everything(user_file):
    what = [nn.Sequential(nn.Flatten(), nn.Linear(3072, 2)), nb201(*[NONE] * 6), f"{user_file}:make", cnn()]
    records = score(what, "params", "noise", input_shape=(3, 32, 32))
    assert [str(r.arch) for r in records] == ["Sequential", nb201(*[NONE] * 6), f"{user_file}:make", "Sequential"]
    assert [records[i].value for i in (0, 2, 3)] == [3073 * 2, 112 + 25, 112 + 8 + 25]
    assert [r.task.num_classes for r in records] == [2, 10, 5, 5]
    assert score([], "params") == []


def test_a_model_stays_on_its_device():
    model = nn.Linear(6, 4)
    score(model, "params", torch.zeros(1, 6), device="meta")
    assert {p.device.type for p in model.parameters()} == {"cpu"}


def test_an_architecture_of_the_users_own_space_needs_that_space():
    assert value(score(ARCH, "params", data="noise", space=tiny)) == value(
        score(str(ARCH), "params", data="noise", space=tiny)
    )
    with pytest.raises(UsageError, match=r"space 'tiny'; say where it is"):
        score(ARCH, "params")


def test_an_architecture_knows_its_own_space_whatever_the_strings_are():
    arch = untrained.load_space("nasbench201").parse(nb201(*[CONV] * 6))
    first, second = score([arch, "width=2,kernel=3"], "params", data="noise", space=tiny)
    assert first.arch.space == "nasbench201"
    assert second.value == 572


@pytest.mark.parametrize("relative", [True, False])
def test_a_factory_in_a_file(user_file, monkeypatch, relative):
    monkeypatch.chdir(user_file.parent)
    name = "./net.py:make" if relative else f"{user_file}:make"
    records = score(name, ("params", "flops", "dextr"), input_shape=(3, 16, 16), seeds=2)
    found = {(r.proxy, r.seed): r.value for r in records}
    assert found["params", 0] == 3 * 4 * 9 + 4 + 4 * 5 + 5
    assert found["flops", 0] == 3 * 4 * 9 * 14 * 14 + 4 * 5
    assert found["dextr", 0] != found["dextr", 1]  # every seed is another initialisation
    assert {r.task.num_classes for r in records} == {5}
    again = score(name, ("params", "flops", "dextr"), input_shape=(3, 16, 16), seeds=2)
    assert [r.value for r in again] == [r.value for r in records]


def test_a_factory_that_draws_from_numpy_is_seeded_too(user_file):
    weights = judge(weight_sum)
    a, b = (value(score(f"{user_file}:numpy_weights", weights, input_shape=(3, 8, 8))) for _ in range(2))
    assert a == b


def test_a_factory_in_a_module_that_can_be_imported_from_here(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "somebodys_package").mkdir()
    (tmp_path / "somebodys_package" / "__init__.py").touch()
    (tmp_path / "somebodys_package" / "nets.py").write_text("from torch import nn\nmake = lambda: nn.Linear(4, 2)\n")
    assert value(score("somebodys_package.nets:make", "params", input_shape=(4,))) == 10


def test_a_network_that_takes_no_image_is_shown_noise_by_default(user_file):
    (user_file.parent / "vector.py").write_text("from torch import nn\nmake = lambda: nn.Linear(4, 2)\n")
    for name, shape, data in [("vector.py:make", (4,), "noise"), ("net.py:make", (3, 8, 8), DEFAULT_DATA)]:
        (record,) = score(f"{user_file.parent}/{name}", "params", input_shape=shape)
        assert record.task.dataset == data != ""


def test_default_data_have_no_more_classes_than_the_users_network(user_file):
    """Sample data with ten labels must not break a gradient proxy on a network with five outputs."""
    loss = judge(lambda probe: float(probe.batch.targets.max()) + 0 * probe.loss, samples=64)
    assert value(score(f"{user_file}:make", loss, input_shape=(3, 8, 8))) == 4


def test_what_a_factory_raises_is_shown_as_theirs(user_file):
    with pytest.raises(UserCodeError) as caught:
        score(f"{user_file}:boom", "params", input_shape=(3, 8, 8))
    text = str(caught.value)
    assert text.startswith(f"{user_file}:boom raised\n")
    assert text.endswith("ValueError: the weights are elsewhere")
    assert text.count(f'File "{user_file}"') == 2  # boom, and inner, which it calls
    assert not any(ours in text for ours in ("src/untrained", "untrained/engine", "importlib", "Traceback"))


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("import torch\n1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def make(:\n", "SyntaxError: invalid syntax"),
        ("import a_module_nobody_has\n", "ModuleNotFoundError: No module named 'a_module_nobody_has'"),
    ],
)
@pytest.mark.parametrize("by", ["path", "module"])
def test_what_a_file_raises_while_it_is_loaded_is_shown_as_theirs(tmp_path, monkeypatch, source, last, by):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    stem = f"bad_{uuid4().hex}"
    (tmp_path / f"{stem}.py").write_text(source)
    with pytest.raises(UserCodeError) as caught:
        score(f"./{stem}.py:make" if by == "path" else f"{stem}:make", "params", input_shape=(3, 8, 8))
    text = str(caught.value)
    assert text.endswith(last)
    assert f'{stem}.py", line' in text
    assert not any(ours in text for ours in ("src/untrained", "untrained/engine", "importlib"))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("net.py:number", r"number\(\) returned a int; it must return an nn.Module"),
        ("net.py:three", "is a int; it must be a function that returns an nn.Module"),
        ("net.py:mke", r"no object in .*net.py is called 'mke'; did you mean make\?"),
        ("nett.py:make", "there is no file .*nett.py"),
        ("net:make", "there is no file .*net; give the path"),
        ("net.py:", "half a name"),
    ],
)
def test_a_factory_that_is_none(user_file, name, wanted):
    with pytest.raises(UsageError, match=wanted) as caught:
        score(f"{user_file.parent}/{name}", "params", input_shape=(3, 8, 8))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nobodys_package.nets:make", r"no module called nobodys_package.nets .* \./nobodys_package/nets.py:NAME"),
        (":make", "half a name"),
    ],
)
def test_a_module_that_is_none(name, wanted):
    with pytest.raises(UsageError, match=wanted):
        score(name, "params", input_shape=(3, 8, 8))


def test_a_factory_whose_network_fails_is_a_record(user_file):
    error = failure(score(f"{user_file}:Broken", "dextr", input_shape=(3, 8, 8)))
    assert (error.kind, error.detail.split(" (")[0]) == ("error", "RuntimeError: no forward today")


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (None, r"say what .* takes as input: --input-shape"),
        ((), r"say what .* takes as input: --input-shape"),
        ((3, 0, 8), "impossible input shape"),
        ((3, -1, 8), "impossible input shape"),
        ((3, 10**7, 10**7), "do not fit into memory"),
    ],
)
def test_impossible_shapes(user_file, shape, wanted):
    with pytest.raises(UsageError, match=wanted) as caught:
        score(f"{user_file}:make", "params", input_shape=shape)
    assert "\n" not in str(caught.value)


def test_images_of_the_wrong_kind_for_the_data_are_refused():
    with pytest.raises(UsageError, match="channels"):
        score(nb201(*[CONV] * 6), "params", "photos", input_shape=(5, 32, 32))
    with pytest.raises(UsageError, match="channels x height x width"):
        score(nb201(*[CONV] * 6), "params", "photos", input_shape=(3, 32))


@pytest.mark.parametrize("device", ["gpu", "cuda:99", ""])
def test_a_device_that_is_not_there(device):
    with pytest.raises(UsageError, match="cannot be used on this machine; try cpu") as caught:
        score(ARCH, "params", data="noise", space=tiny, device=device)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("what", "wanted"), [(3, "cannot score a int"), ([3.5], "cannot score a float")])
def test_what_cannot_be_scored(what, wanted):
    with pytest.raises(UsageError, match=wanted):
        score(what, "params")


@pytest.mark.parametrize(("proxies", "seeds"), [((), 1), ("params", 0), ("params", -1)])
def test_nothing_to_ask_for_is_wrong_usage_and_no_empty_answer(proxies, seeds):
    with pytest.raises(UsageError, match="at least one"):
        score(ARCH, proxies, data="noise", space=tiny, seeds=seeds)
