"""The contract of all data sources: samples follow from the seed and have the shape of the task.

Also tensors of the user, and the data root.
"""

from pathlib import Path

import pytest
import torch

from tests.data.tiny import RGB
from untrained.data import SOURCES, find_data_root, load_data, make_tensor_source, set_input_size
from untrained.data.source import fingerprint_batch
from untrained.errors import UsageError
from untrained.types import Batch, Task


@pytest.fixture(params=["noise", "photos", "digits", "cifar10", "npz", "folder"])
def name(request: pytest.FixtureRequest, root: Path) -> str:
    return {"npz": f"npz:{root}/tiny.npz", "folder": f"folder:{root}/photos"}.get(
        request.param, request.param
    )


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 64, 64), (3, 20, 36)])
def test_batches_have_the_shape_of_the_task(name, root, shape):
    source = load_data(name, Task("any", shape, 7), root)
    batch = source.batch(5)
    assert source.task.input_shape == shape
    assert batch.inputs.shape == (5, *shape)
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.isfinite().all()
    assert batch.targets.shape == (5,)
    assert batch.targets.dtype == torch.int64
    assert len(batch) == 5


def test_the_seed_determines_the_samples(name, root):
    source = load_data(name, RGB, root)
    one = source.batch(6, seed=3)
    same = load_data(name, RGB, root).batch(6, seed=3)
    other = source.batch(6, seed=4)
    assert torch.equal(one.inputs, same.inputs)
    assert torch.equal(one.targets, same.targets)
    assert not torch.equal(one.inputs, other.inputs)


def test_samples_do_not_depend_on_the_global_random_state(name, root):
    source = load_data(name, RGB, root)
    torch.manual_seed(0)
    one = source.batch(4)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(one.inputs, source.batch(4).inputs)
    torch.manual_seed(0)
    # Drawing samples does not change the global random state either.
    assert torch.equal(torch.get_rng_state(), state)


def test_a_small_batch_is_the_head_of_a_large_one(name, root):
    source = load_data(name, RGB, root)
    small = source.batch(3, seed=1)
    large = source.batch(8, seed=1)
    assert torch.equal(small.inputs, large.inputs[:3])
    assert torch.equal(small.targets, large.targets[:3])


def test_labels_are_classes_of_the_task(name, root):
    source = load_data(name, RGB, root)
    targets = torch.cat([source.batch(8, seed=seed).targets for seed in range(10)])
    assert 0 <= int(targets.min()) < int(targets.max()) < source.task.num_classes


def test_samples_of_a_batch_differ(name, root):
    inputs = load_data(name, RGB, root).batch(8).inputs
    assert len({sample.numpy().tobytes() for sample in inputs}) == 8


@pytest.mark.parametrize(
    ("name", "classes"), [("noise", 7), ("photos", 7), ("digits", 10), ("cifar10", 10)]
)
def test_the_task_has_the_classes_of_the_data(name, classes, root):
    task = load_data(name, RGB, root).task
    assert task == Task(name, (3, 32, 32), classes)


@pytest.mark.parametrize("kind", ["photos", "digits", "cifar10", "folder"])
@pytest.mark.parametrize("shape", [(12,), (3, 32), (3, 4, 32, 32)])
def test_images_require_three_axes(kind, shape, root):
    data = f"folder:{root}/photos" if kind == "folder" else kind
    with pytest.raises(UsageError, match="channels x height x width"):
        load_data(data, Task("any", shape, 7), root)


@pytest.mark.parametrize("shape", [(), (3, 0, 32), (-3, 32, 32)])
def test_an_impossible_shape_is_refused(shape):
    with pytest.raises(UsageError, match=r"invalid input shape .* such as 3x32x32"):
        load_data("noise", Task("any", shape, 7))


def test_the_input_size_of_images_can_be_changed():
    assert set_input_size(RGB, 48) == Task("any", (3, 48, 48), 7)
    assert set_input_size(RGB, None) is RGB
    with pytest.raises(
        UsageError, match=r"--input-size 48 is for images, and these networks take \(12,\)"
    ):
        set_input_size(Task("table", (12,), 1), 48)


def test_the_error_for_an_unknown_data_set_suggests_similar_names():
    with pytest.raises(UsageError, match="no data set is called 'fotos'; did you mean photos"):
        load_data("fotos", RGB)


@pytest.mark.parametrize(
    "name", ["noise", "photos", "digits", "cifar10", "cifar100", "mnist", "fashion_mnist"]
)
def test_an_argument_is_refused_if_the_data_take_none(name):
    with pytest.raises(
        UsageError,
        match=f"^{name} takes no argument, but got '3'; write --data {name}$",
    ):
        load_data(f"{name}:3", RGB)


@pytest.mark.parametrize("kind", [name for name, kind in SOURCES.items() if kind.belongs_to_user])
def test_a_path_may_begin_with_a_tilde(kind, monkeypatch, tmp_path):
    """The file does not exist, and the error names its full path."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match=f"there is no (file|folder) {tmp_path}/none.{kind}"):
        load_data(f"{kind}:~/none.{kind}", RGB)
    with pytest.raises(UsageError, match=r"there is no (file|folder) ~no-such-user/none"):
        load_data(f"{kind}:~no-such-user/none", RGB)


def test_every_source_has_a_description():
    assert {"noise", "photos", "digits", "cifar10", "npz"} <= set(SOURCES)
    assert all(kind.about for kind in SOURCES.values())


# ------------------------------------------------------------------------------ tensors of the user; the data root


def test_tensors_of_the_user_keep_their_order():
    inputs = torch.randn(6, 3, 4, 4)
    targets = torch.tensor([5, 4, 3, 2, 1, 0])
    batch = make_tensor_source(inputs, targets, RGB).batch(4, seed=9)
    assert torch.equal(batch.inputs, inputs[:4])
    assert batch.targets.tolist() == [5, 4, 3, 2]


def test_tensors_of_the_user_without_targets_get_random_ones():
    source = make_tensor_source(torch.randn(6, 3, 4, 4), None, RGB)
    assert torch.equal(source.batch(3).targets, source.batch(6).targets[:3])
    assert any(
        not torch.equal(source.batch(6).targets, source.batch(6, seed=s).targets) for s in (1, 2, 3)
    )
    assert int(torch.cat([source.batch(6, seed=s).targets for s in range(9)]).max()) < 7


def test_the_data_root_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("UNTRAINED_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert find_data_root(tmp_path) == find_data_root(str(tmp_path)) == tmp_path
    assert find_data_root() == tmp_path / "variable"
    monkeypatch.delenv("UNTRAINED_DATA")
    assert find_data_root() == tmp_path / "cache" / "untrained"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert find_data_root() == tmp_path / "home" / ".cache" / "untrained"


def test_data_are_found_through_the_environment_variable(monkeypatch, root):
    monkeypatch.setenv("UNTRAINED_DATA", str(root))
    assert len(load_data("cifar10", RGB).batch(2)) == 2


def test_a_fingerprint_depends_on_values_shape_and_type_and_not_on_the_memory_order():
    inputs = torch.zeros(2, 3, 4, 4)
    targets = torch.tensor([0, 1])
    fingerprint = fingerprint_batch(Batch(inputs, targets))
    assert len(fingerprint) == 16
    assert int(fingerprint, 16) >= 0
    assert fingerprint_batch(Batch(inputs.clone(), targets.clone())) == fingerprint
    reordered = inputs.permute(0, 3, 2, 1).contiguous().permute(0, 3, 2, 1)
    assert fingerprint_batch(Batch(reordered, targets)) == fingerprint
    changed_inputs = inputs.clone()
    changed_inputs[1, 2, 3, 3] = 1e-30
    changed = {
        "pixel": Batch(changed_inputs, targets),
        "label": Batch(inputs, torch.tensor([0, 2])),
        "shape": Batch(inputs.reshape(2, 4, 3, 4), targets),
        "type": Batch(inputs.double(), targets),
        "fewer": Batch(inputs[:1], targets[:1]),
    }
    assert len({fingerprint, *map(fingerprint_batch, changed.values())}) == 6
