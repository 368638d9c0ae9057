"""Data: the same seed gives the same samples, files of strangers are not trusted, and complaints say what to type."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from untrained.data import SOURCES, data_root, from_tensors, load
from untrained.data._source import fingerprint
from untrained.errors import UsageError
from untrained.types import Batch, Task

RGB = Task("any", (3, 32, 32), 7)
MEAN, STD = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2470, 0.2435, 0.2616])  # of CIFAR-10, as published


# --------------------------------------------------------------------------------------------------- the tiny data sets


def cifar_images() -> Tensor:
    """Ten images of random bytes, (10, 3, 32, 32), as the publisher orders them: planes of red, green and blue."""
    return torch.randint(256, (10, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def write_binary(root: Path) -> None:
    """Two images a batch, image k with label k: one byte, then 3,072."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for batch, images in enumerate(cifar_images().split(2)):
        records = (bytes([2 * batch + i]) + image.numpy().tobytes() for i, image in enumerate(images))
        (folder / f"data_batch_{batch + 1}.bin").write_bytes(b"".join(records))


def write_python(root: Path) -> None:
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for batch, images in enumerate(cifar_images().split(2)):
        content = {b"data": images.reshape(2, 3072).numpy(), b"labels": [2 * batch, 2 * batch + 1]}
        (folder / f"data_batch_{batch + 1}").write_bytes(pickle.dumps(content, protocol=2))


def write_npz(path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.integers(256, size=(12, 9, 11, 3), dtype=np.uint8), y=np.arange(12) % 4)
    return path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_binary(folder)
    write_npz(folder / "tiny.npz")
    return folder


@pytest.fixture(params=["noise", "photos", "digits", "cifar10", "npz"])
def name(request: pytest.FixtureRequest, root: Path) -> str:
    return f"npz:{root}/tiny.npz" if request.param == "npz" else request.param


# ------------------------------------------------------------------------------------------------ what all sources keep


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 64, 64), (3, 20, 36)])
def test_batches_have_the_shape_of_the_task(name, root, shape):
    source = load(name, Task("any", shape, 7), root)
    batch = source.batch(5)
    assert source.task.input_shape == shape
    assert batch.inputs.shape == (5, *shape)
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.isfinite().all()
    assert batch.targets.shape == (5,)
    assert batch.targets.dtype == torch.int64
    assert len(batch) == 5


def test_the_seed_decides_the_samples(name, root):
    source = load(name, RGB, root)
    one, same, other = source.batch(6, seed=3), load(name, RGB, root).batch(6, seed=3), source.batch(6, seed=4)
    assert torch.equal(one.inputs, same.inputs)
    assert torch.equal(one.targets, same.targets)
    assert not torch.equal(one.inputs, other.inputs)


def test_the_seed_alone_decides(name, root):
    source = load(name, RGB, root)
    torch.manual_seed(0)
    one = source.batch(4)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(one.inputs, source.batch(4).inputs)
    torch.manual_seed(0)
    assert torch.equal(torch.get_rng_state(), state)  # nor does drawing samples move the global state


def test_a_small_batch_is_the_head_of_a_large_one(name, root):
    source = load(name, RGB, root)
    small, large = source.batch(3, seed=1), source.batch(8, seed=1)
    assert torch.equal(small.inputs, large.inputs[:3])
    assert torch.equal(small.targets, large.targets[:3])


def test_labels_are_classes_of_the_task(name, root):
    source = load(name, RGB, root)
    targets = torch.cat([source.batch(8, seed=seed).targets for seed in range(10)])
    assert 0 <= int(targets.min()) < int(targets.max()) < source.task.num_classes


def test_samples_of_a_batch_differ(name, root):
    inputs = load(name, RGB, root).batch(8).inputs
    assert len({sample.numpy().tobytes() for sample in inputs}) == 8


@pytest.mark.parametrize(("name", "classes"), [("noise", 7), ("photos", 7), ("digits", 10), ("cifar10", 10)])
def test_data_with_classes_of_their_own_say_so(name, classes, root):
    task = load(name, RGB, root).task
    assert task == Task(name, (3, 32, 32), classes)


@pytest.mark.parametrize("kind", ["photos", "digits", "cifar10"])
@pytest.mark.parametrize("shape", [(12,), (3, 32), (3, 4, 32, 32)])
def test_images_want_three_axes(kind, shape, root):
    with pytest.raises(UsageError, match="channels x height x width"):
        load(kind, Task("any", shape, 7), root)


@pytest.mark.parametrize("shape", [(), (3, 0, 32), (-3, 32, 32)])
def test_an_impossible_shape_is_refused(shape):
    with pytest.raises(UsageError, match=r"impossible input shape .* such as 3x32x32"):
        load("noise", Task("any", shape, 7))


def test_an_unknown_data_set_lists_the_near_names():
    with pytest.raises(UsageError, match="no data set is called 'fotos'; did you mean photos"):
        load("fotos", RGB)


def test_every_source_says_what_it_is():
    assert {"noise", "photos", "digits", "cifar10", "npz"} <= set(SOURCES)
    assert all(kind.about for kind in SOURCES.values())


# ----------------------------------------------------------------------------------------------------- embedded sources


@pytest.mark.parametrize("shape", [(16,), (5, 8), (2, 3, 4, 5)])
def test_noise_has_any_shape(shape):
    assert load("noise", Task("any", shape, 2)).batch(3).inputs.shape == (3, *shape)


def test_noise_is_standard_normal():
    inputs = load("noise", RGB).batch(64).inputs  # 196,608 numbers: the mean is known to 0.0023, one sigma
    assert abs(float(inputs.mean())) < 0.012
    assert float(inputs.std()) == pytest.approx(1, abs=0.012)
    assert float((inputs.abs() < 1).float().mean()) == pytest.approx(0.6827, abs=0.006)


def test_photos_are_pictures_and_normalised():
    inputs = load("photos", RGB).batch(64).inputs
    assert float(inputs.flatten(1).std(1).min()) > 0.01  # no crop is constant, not even one of the sky
    assert inputs.mean((0, 2, 3)).abs().max() < 0.6  # of the photograph: mean 0 and deviation 1, of its crops nearly
    assert 0.5 < float(inputs.std()) < 1.5
    neighbours = torch.corrcoef(torch.stack([inputs[..., :-1].flatten(), inputs[..., 1:].flatten()]))[0, 1]
    assert neighbours > 0.7  # nature is smooth, noise is not


def test_grey_photos_are_the_average_of_the_colours():
    """With the same seed the same crop: (mean_c x - mean mu) / mean sigma, where x = mu + sigma z in colour."""
    colour, grey = (load("photos", Task("any", (c, 24, 24), 7)).batch(3, seed=2).inputs for c in (3, 1))
    fit = torch.linalg.lstsq(torch.cat([colour[0].flatten(1).T, torch.ones(576, 1)], 1), grey[0].flatten()[:, None])
    weights = fit.solution[:3, 0]  # sigma_c / 3 over the mean of sigma: they sum up to one
    assert float(weights.sum()) == pytest.approx(1, abs=1e-3)
    assert weights.min() > 0


def test_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    bundle = datasets.load_digits()
    pixels = torch.from_numpy(np.floor(bundle.images * 255 / 16)) / 255
    known = ((pixels - pixels.mean()) / pixels.std()).flatten(1).float()
    batch = load("digits", Task("any", (1, 8, 8), 3)).batch(50)
    distance, nearest = torch.cdist(batch.inputs.flatten(1), known).min(1)
    assert float(distance.max()) < 1e-2
    assert batch.targets.tolist() == bundle.target[nearest.numpy()].tolist()


# ------------------------------------------------------------------------------------------------------------- CIFAR-10


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_cifar10_reads_the_publishers_files(write, tmp_path):
    write(tmp_path)
    batch = load("cifar10", RGB, tmp_path).batch(10)
    assert sorted(batch.targets.tolist()) == list(range(10))
    pixels = cifar_images()[batch.targets] / 255  # image k has label k
    torch.testing.assert_close(batch.inputs, (pixels - MEAN[:, None, None]) / STD[:, None, None])


def test_both_formats_give_the_same_samples(tmp_path):
    write_binary(tmp_path / "one")
    write_python(tmp_path / "two")
    one, two = (load("cifar10", RGB, tmp_path / folder).batch(4, seed=5) for folder in ("one", "two"))
    assert fingerprint(one) == fingerprint(two)


def test_cifar10_in_grey_and_enlarged(root):
    batch = load("cifar10", Task("any", (1, 64, 64), 10), root).batch(2)
    grey = (cifar_images()[batch.targets] / 255).mean(1, keepdim=True)
    expected = F.interpolate((grey - MEAN.mean()) / STD.mean(), size=(64, 64), mode="bilinear", align_corners=False)
    torch.testing.assert_close(batch.inputs, expected, rtol=1e-4, atol=1e-5)


def test_channels_that_cannot_match_are_refused(root):
    with pytest.raises(UsageError, match="images of 3 channels cannot be shown to a network of 4"):
        load("cifar10", Task("any", (4, 32, 32), 10), root).batch(1)


class _Attack:
    """What a hostile file would do when it is unpickled: make a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> object:
        return open, (str(self.target), "w")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_refused_and_not_run(protocol, tmp_path):
    write_python(tmp_path)
    file, target = tmp_path / "cifar-10-batches-py" / "data_batch_1", tmp_path / "attacked"
    file.write_bytes(pickle.dumps({b"data": _Attack(target), b"labels": []}, protocol=protocol))
    with pytest.raises(UsageError, match=r"data_batch_1 was refused: it asks for (io|builtins|__builtin__)\.open"):
        load("cifar10", RGB, tmp_path)
    assert not target.exists()
    with pickle.loads(file.read_bytes())[b"data"]:  # the attack is a real one
        assert target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((2, 3072)), b"labels": [1, 2]}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]})[:-400],
    ],
    ids=["empty", "text", "list", "no labels", "few labels", "floats", "cut"],
)
def test_a_damaged_python_batch_is_named(content, tmp_path):
    write_python(tmp_path)
    file = tmp_path / "cifar-10-batches-py" / "data_batch_4"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="data_batch_4"):
        load("cifar10", RGB, tmp_path)


@pytest.mark.parametrize("size", [0, 3072, 3074, 2 * 3073 - 1])
def test_a_damaged_binary_batch_is_named(size, tmp_path):
    write_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_2.bin").write_bytes(bytes(size))
    with pytest.raises(UsageError, match=rf"data_batch_2\.bin is damaged: {size} bytes"):
        load("cifar10", RGB, tmp_path)


def test_missing_data_say_which_file_where_and_what_to_type(tmp_path):
    write_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(UsageError) as caught:
        load("cifar10", RGB, tmp_path)
    message = str(caught.value)
    for part in (str(tmp_path), "data_batch_1.bin", "cifar-10-batches-py", "--data-root", "UNTRAINED_DATA", "--data "):
        assert part in message


# ------------------------------------------------------------------------------------------------------------------ npz


def test_npz_are_the_images_and_labels_of_the_file(root):
    with np.load(root / "tiny.npz") as archive:
        x, y = torch.from_numpy(archive["x"]), archive["y"]
    source = load(f"npz:{root}/tiny.npz", Task("any", (3, 9, 11), 99))
    assert source.task == Task("npz:tiny.npz", (3, 9, 11), 4)
    batch = source.batch(12)
    scaled = x.double() / 255
    known = ((scaled - scaled.mean((0, 1, 2))) / scaled.std((0, 1, 2))).permute(0, 3, 1, 2).float()
    distance, which = torch.cdist(batch.inputs.flatten(1), known.flatten(1)).min(1)
    assert float(distance.max()) < 1e-2
    assert sorted(which.tolist()) == list(range(12))
    assert batch.targets.tolist() == y[which.numpy()].tolist()


def test_npz_of_grey_images_under_the_other_names(tmp_path):
    np.savez(tmp_path / "g.npz", x_train=np.arange(64, dtype=np.uint8).reshape(4, 4, 4), y_train=np.ones((4, 1), int))
    source = load(f"npz:{tmp_path}/g.npz", RGB)
    batch = source.batch(4)
    assert source.task.num_classes == 2
    assert batch.targets.tolist() == [1] * 4
    assert torch.equal(batch.inputs[:, 0], batch.inputs[:, 2])


GOOD = np.zeros((4, 5, 5, 3), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"a": GOOD}, "holds a; it needs x and y"),
        ({}, "holds nothing"),
        ({"x": GOOD}, "needs x and y"),
        ({"x": GOOD.astype(float), "y": np.arange(4)}, "x is float64"),
        ({"x": GOOD[0, 0], "y": np.arange(5)}, r"wanted uint8 \(N, H, W\[, C\]\)"),
        ({"x": GOOD[:0], "y": np.arange(0)}, r"x is uint8 \(0, 5, 5, 3\)"),
        ({"x": GOOD, "y": np.arange(3)}, r"y is int64 \(3,\); wanted 4 whole numbers"),
        ({"x": GOOD, "y": np.eye(4, dtype=int)}, r"y is int64 \(4, 4\)"),
        ({"x": GOOD, "y": np.array(["cat"] * 4)}, "y is <U3"),
        ({"x": GOOD, "y": np.array([0, 1, -1, 2])}, "from 0 up"),
    ],
)
def test_a_wrong_npz_says_what_is_wanted(arrays, says, tmp_path):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(UsageError, match=says):
        load(f"npz:{tmp_path}/bad.npz", RGB)


def test_an_npz_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="say which file"):
        load("npz", RGB)
    with pytest.raises(UsageError, match="there is no file"):
        load(f"npz:{tmp_path}/none.npz", RGB)
    whole = write_npz(tmp_path / "whole.npz").read_bytes()
    for name, content in {"text": b"hello", "cut": whole[:200], "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match="not a readable numpy archive"):
            load(f"npz:{tmp_path}/{name}", RGB)
    np.save(tmp_path / "single.npy", GOOD)
    with pytest.raises(UsageError, match="not a readable numpy archive"):
        load(f"npz:{tmp_path}/single.npy", RGB)


def test_an_npz_with_a_hostile_object_is_refused_and_not_run(tmp_path):
    target = tmp_path / "attacked"
    np.savez(tmp_path / "bad.npz", x=np.array([_Attack(target)], dtype=object), y=np.arange(1))
    with pytest.raises(UsageError, match="allow_pickle=False"):
        load(f"npz:{tmp_path}/bad.npz", RGB)
    assert not target.exists()


# -------------------------------------------------------------------------------------------------- one's own; the root


def test_own_tensors_keep_their_order():
    inputs, targets = torch.randn(6, 3, 4, 4), torch.tensor([5, 4, 3, 2, 1, 0])
    batch = from_tensors(inputs, targets, RGB).batch(4, seed=9)
    assert torch.equal(batch.inputs, inputs[:4])
    assert batch.targets.tolist() == [5, 4, 3, 2]


def test_own_tensors_without_targets_get_random_ones():
    source = from_tensors(torch.randn(6, 3, 4, 4), None, RGB)
    assert torch.equal(source.batch(3).targets, source.batch(6).targets[:3])
    assert any(not torch.equal(source.batch(6).targets, source.batch(6, seed=s).targets) for s in (1, 2, 3))
    assert int(torch.cat([source.batch(6, seed=s).targets for s in range(9)]).max()) < 7


def test_the_data_root_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("UNTRAINED_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root(tmp_path) == data_root(str(tmp_path)) == tmp_path
    assert data_root() == tmp_path / "variable"
    monkeypatch.delenv("UNTRAINED_DATA")
    assert data_root() == tmp_path / "cache" / "untrained"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_root() == tmp_path / "home" / ".cache" / "untrained"


def test_the_variable_leads_to_the_data(monkeypatch, root):
    monkeypatch.setenv("UNTRAINED_DATA", str(root))
    assert len(load("cifar10", RGB).batch(2)) == 2


def test_a_fingerprint_says_which_numbers_were_looked_at():
    inputs, targets = torch.zeros(2, 3, 4, 4), torch.tensor([0, 1])
    print_of = fingerprint(Batch(inputs, targets))
    assert len(print_of) == 16
    assert int(print_of, 16) >= 0
    assert fingerprint(Batch(inputs.clone(), targets.clone())) == print_of
    assert fingerprint(Batch(inputs.permute(0, 3, 2, 1).contiguous().permute(0, 3, 2, 1), targets)) == print_of
    pixel = inputs.clone()
    pixel[1, 2, 3, 3] = 1e-30
    changed = {
        "pixel": Batch(pixel, targets),
        "label": Batch(inputs, torch.tensor([0, 2])),
        "shape": Batch(inputs.reshape(2, 4, 3, 4), targets),
        "type": Batch(inputs.double(), targets),
        "fewer": Batch(inputs[:1], targets[:1]),
    }
    assert len({print_of, *map(fingerprint, changed.values())}) == 6
