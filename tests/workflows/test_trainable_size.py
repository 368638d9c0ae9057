"""The limit on the training time of networks that follows from the time of a search."""

from dataclasses import replace

import numpy as np
import pytest

from tests.workflows.test_contest import make_settings, source  # noqa: F401 - a fixture
from untrained.config import Limits, SearchConfig, TrainingTimeLimit
from untrained.data.parts import TRAIN, VAL
from untrained.errors import UsageError
from untrained.runs.folder import RunFolder
from untrained.spaces import load_space
from untrained.strategies.limits import ConstrainedSpace, NetworkSize
from untrained.types import Arch
from untrained.workflows import trainable_size
from untrained.workflows.trainable_size import (
    TARGET_EPOCHS,
    TIMED_RANDOM_NETWORKS,
    fit_training_time,
    measure_trainable_size,
)


@pytest.fixture
def space():
    return ConstrainedSpace(load_space("convnet"), Limits.parse(max_params="200k"))


def test_the_limit_follows_from_the_times_of_designs_and_random_networks(
    space,
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    """The times are made up of multiply-adds and memory, so the fit is exact."""
    designs = list(space.list_known_designs().values())[:4]
    settings = replace(make_settings(source, tmp_path, seconds=1000.0), space="convnet")
    batch = settings.recipe.batch
    timed = []

    def predict_step(arch: Arch) -> float:
        size = NetworkSize(space.space, arch, space.task)
        return batch * (3e-12 * size.flops + 4e-10 * size.memory)

    def measure_step_seconds(setup, settings, part):
        arch = space.space.parse(setup.arch)
        timed.append(arch)
        return predict_step(arch)

    monkeypatch.setattr(trainable_size, "measure_step_seconds", measure_step_seconds)
    size = measure_trainable_size(space, settings)
    assert size is not None
    assert timed[:4] == designs
    assert len(timed) == 4 + TIMED_RANDOM_NETWORKS
    samples = len(source.parts[TRAIN]) + len(source.parts[VAL])
    assert size.limit.seconds_per_flop == pytest.approx(3e-12)
    assert size.limit.seconds_per_byte == pytest.approx(4e-10)
    # On a CPU, most steps of a short training see reduced pictures.
    cost = 0.4 + 0.6 * 25 / 64
    assert size.limit.seconds == pytest.approx(1000.0 / (cost * TARGET_EPOCHS * samples))
    # The middle of those that were timed is faster than a network at the limit, or it is not.
    step_seconds = sorted(predict_step(arch) for arch in timed)
    middle = (step_seconds[4] + step_seconds[5]) / 2
    assert size.step_seconds == pytest.approx(min(middle, size.limit.seconds * batch))
    assert (size.samples, size.designs) == (samples, len(space.list_known_designs()))


def test_networks_at_the_limit_correct_a_prediction_from_larger_ones(
    space,
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    """Every step takes a tenth of a second longer than multiply-adds explain."""
    settings = replace(make_settings(source, tmp_path, seconds=300.0), space="convnet")
    batch = settings.recipe.batch
    fixed_seconds = 0.1

    def predict_step(arch: Arch) -> float:
        return fixed_seconds + batch * 3e-9 * NetworkSize(space.space, arch, space.task).flops

    monkeypatch.setattr(
        trainable_size,
        "measure_step_seconds",
        lambda setup, settings, part: predict_step(space.space.parse(setup.arch)),
    )
    corrected = measure_trainable_size(space, settings)
    monkeypatch.setattr(trainable_size, "TIMED_RANDOM_NETWORKS", 0)
    uncorrected = measure_trainable_size(space, settings)
    rng = np.random.default_rng(0)
    errors = {}
    for name, size in (("corrected", corrected), ("uncorrected", uncorrected)):
        limited_space = ConstrainedSpace(space.space, space.limits)
        limited_space.limit_training_time(size.limit)
        ratios = []
        for _ in range(20):
            arch = limited_space.sample(rng)
            counts = NetworkSize(space.space, arch, space.task)
            predicted = batch * size.limit.predict_seconds(counts.flops, counts.memory)
            ratios.append(abs(np.log(predicted / predict_step(arch))))
        errors[name] = np.median(ratios)
    assert errors["corrected"] < errors["uncorrected"]


def test_a_fit_has_no_negative_coefficients_and_the_least_relative_errors():
    # The second network has more multiply-adds and is faster, so these explain nothing.
    limit = fit_training_time([(1e6, 1e3), (2e6, 5e2)], [2.0, 1.0], 9.0)
    assert (limit.seconds, limit.seconds_per_flop) == (9.0, 0.0)
    assert limit.seconds_per_byte == pytest.approx(2e-3)
    # A single network, as if the time sufficed for no other.
    limit = fit_training_time([(1e6, 1e3)], [2.0], 9.0)
    assert limit.predict_seconds(1e6, 1e3) == pytest.approx(2.0)
    # Relative errors: the sum of (t_i x_i - 1)^2 is least at sum(x_i) / sum(x_i^2), x = bytes / s.
    limit = fit_training_time([(0.0, 1.0), (0.0, 100.0)], [1.0, 200.0], 9.0)
    assert limit.seconds_per_byte == pytest.approx((1 + 0.5) / (1 + 0.25))


def test_there_is_no_limit_without_time(
    space,
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    monkeypatch.setattr(trainable_size, "measure_step_seconds", lambda *arguments: 0.01)
    settings = replace(make_settings(source, tmp_path), final_seconds=None)
    assert measure_trainable_size(space, settings) is None


def test_a_resumed_search_keeps_the_limit_of_its_first_session(tmp_path):
    def open_run(limit: TrainingTimeLimit | None) -> RunFolder:
        config = SearchConfig("mlp")
        return RunFolder(tmp_path, config, "params@1", True, "", training_time_limit=limit)

    limit = TrainingTimeLimit(5e-3, 1e-12, 1e-10)
    open_run(limit).save()
    assert open_run(None).resume().training_time_limit == limit


def test_designs_and_samples_stay_below_the_limit(space):
    unlimited = space.list_known_designs()
    limit = TrainingTimeLimit(1.0, 1e-12, 1e-10)

    def predict(arch: Arch) -> float:
        size = NetworkSize(space.space, arch, space.task)
        return 1e-12 * size.flops + 1e-10 * size.memory

    longest = max(predict(arch) for arch in unlimited.values())
    space.limit_training_time(replace(limit, seconds=longest / 4))
    archs = [*space.list_known_designs().values()]
    assert archs
    archs += [space.sample(np.random.default_rng(seed)) for seed in range(5)]
    for arch in archs:
        assert predict(arch) <= longest / 4
        assert NetworkSize(space.space, arch, space.task).params <= 200_000
    assert space.size is None


def test_the_message_names_the_time_if_no_network_can_be_trained(monkeypatch):
    monkeypatch.setattr("untrained.strategies.limits.MAX_ATTEMPTS", 3)
    space = ConstrainedSpace(load_space("convnet"))
    space.limit_training_time(TrainingTimeLimit(1e-12, 1e-12, 1e-10))
    with pytest.raises(UsageError, match="can be trained in the available time; raise --time"):
        space.sample(np.random.default_rng(0))


def test_a_limit_that_few_networks_satisfy_is_raised(
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    """A slow machine allows so little that a search would hardly find a network."""
    space = ConstrainedSpace(load_space("convnet"), Limits.parse(max_params="50k"))

    def count_memory(arch: Arch) -> float:
        return NetworkSize(space.space, arch, space.task).memory

    # A step takes a second per byte of weights and activations.
    monkeypatch.setattr(
        trainable_size,
        "measure_step_seconds",
        lambda setup, settings, part: count_memory(space.space.parse(setup.arch)),
    )
    settings = replace(make_settings(source, tmp_path, seconds=10.0), space="convnet")
    # In the time for a tenth of the smallest design, nothing can be trained, so the limit is raised.
    samples = len(source.parts[TRAIN]) + len(source.parts[VAL])
    smallest = min(count_memory(arch) for arch in space.list_known_designs().values())
    steps = TARGET_EPOCHS * samples / settings.recipe.batch
    too_short = smallest / 10
    settings = replace(settings, final_seconds=too_short * steps)
    size = measure_trainable_size(space, settings)
    assert size is not None
    assert size.limit is not None
    # Half of other random networks are allowed now: 25 of 50, give or take three standard errors of
    # this sample (3.5) and of the 20 networks that decided (5.6).
    rng = np.random.default_rng(3)
    smallest_archs = []
    for _ in range(50):
        smallest_archs.append(space.space.list_scaled(space.space.sample(rng))[0])

    def count_allowed(step_seconds: float) -> int:
        limit = replace(size.limit, seconds=step_seconds / settings.recipe.batch)
        limited_space = ConstrainedSpace(load_space("convnet"), Limits.parse(max_params="50k"))
        limited_space.limit_training_time(limit)
        return sum(limited_space.allows(arch) for arch in smallest_archs)

    assert 5 <= count_allowed(size.limit.seconds * settings.recipe.batch) <= 45
    assert count_allowed(too_short) == 0
