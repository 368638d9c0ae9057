"""The limit on multiply-adds that follows from the time of a search."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tests.workflows.test_contest import make_settings, source  # noqa: F401 - a fixture
from untrained.config import Limits, SearchConfig
from untrained.data.parts import TRAIN, VAL
from untrained.runs.folder import RunFolder
from untrained.spaces import load_space
from untrained.strategies.limits import ConstrainedSpace, NetworkSize
from untrained.workflows import trainable_size
from untrained.workflows.trainable_size import TARGET_EPOCHS, measure_trainable_size


@pytest.fixture
def space():
    return ConstrainedSpace(load_space("convnet"), Limits.parse(max_params="200k"))


def test_a_network_at_the_limit_has_the_intended_number_of_epochs(
    space,
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    """The fastest of the known designs that are timed decides."""
    designs = list(space.list_known_designs().values())[:4]
    flops = {str(arch): NetworkSize(space.space, arch, space.task).flops for arch in designs}
    step_seconds = {str(arch): 0.001 * number for number, arch in enumerate(designs, 1)}
    timed = []

    def measure_step_seconds(subject, settings, part):
        timed.append(subject.arch)
        return step_seconds[subject.arch]

    monkeypatch.setattr(trainable_size, "measure_step_seconds", measure_step_seconds)
    settings = replace(make_settings(source, tmp_path, seconds=10.0), space="convnet")
    size = measure_trainable_size(space, settings)
    assert size is not None
    assert timed == list(step_seconds)
    speed = max(flops[arch] / step_seconds[arch] for arch in timed) * settings.recipe.batch
    samples = len(source.parts[TRAIN]) + len(source.parts[VAL])
    assert size.max_flops == pytest.approx(speed * 10.0 / (TARGET_EPOCHS * samples))
    # A network at the limit is faster than the middle one of those that were timed, or it is not.
    at_limit = size.max_flops * settings.recipe.batch / speed
    assert size.step_seconds == pytest.approx(min(0.0025, at_limit))
    assert (size.samples, size.designs) == (samples, len(space.list_known_designs()))


@pytest.mark.parametrize(("step_seconds", "final_seconds"), [(0.01, None), (1e9, 10.0)])
def test_there_is_no_limit_without_time_or_without_small_networks(
    space,
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
    step_seconds,
    final_seconds,
):
    monkeypatch.setattr(trainable_size, "measure_step_seconds", lambda *arguments: step_seconds)
    settings = replace(make_settings(source, tmp_path), final_seconds=final_seconds)
    size = measure_trainable_size(space, settings)
    assert size is None or size.max_flops is None
    assert (size is None) == (final_seconds is None)


def test_a_resumed_search_keeps_the_limit_of_its_first_session(tmp_path):
    def open_run(max_flops: float | None) -> RunFolder:
        config = SearchConfig("mlp")
        return RunFolder(tmp_path, config, "params@1", True, "", max_trained_flops=max_flops)

    open_run(5e6).save()
    assert open_run(None).resume().max_trained_flops == 5e6


def test_a_limit_of_the_user_that_is_lower_stays():
    limits = Limits.parse(max_flops="1M")
    assert limits.with_max_flops(2e6).max_flops == 1e6
    assert limits.with_max_flops(5e5).max_flops == 5e5
    assert Limits().with_max_flops(inf).max_flops == inf


def test_designs_and_samples_stay_below_the_limit(space):
    unlimited = space.list_known_designs()
    largest = max(NetworkSize(space.space, arch, space.task).flops for arch in unlimited.values())
    space.limit_flops(largest / 4)
    archs = [*space.list_known_designs().values()]
    assert archs
    archs += [space.sample(np.random.default_rng(seed)) for seed in range(5)]
    for arch in archs:
        assert NetworkSize(space.space, arch, space.task).flops <= largest / 4


def test_a_limit_that_few_networks_satisfy_is_raised(
    source,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    """A slow machine allows so few multiply-adds that a search would hardly find a network."""
    space = ConstrainedSpace(load_space("convnet"), Limits.parse(max_params="50k"))
    designs = list(space.list_known_designs().values())[:1]
    flops = NetworkSize(space.space, designs[0], space.task).flops
    monkeypatch.setattr(trainable_size, "_choose_networks_to_time", lambda *arguments: designs)
    settings = replace(make_settings(source, tmp_path, seconds=10.0), space="convnet")
    samples = len(source.parts[TRAIN]) + len(source.parts[VAL])
    # The time allows networks of 500,000 multiply-adds.
    steps = TARGET_EPOCHS * samples / settings.recipe.batch
    step_seconds = flops / 500_000 * 10.0 / steps
    monkeypatch.setattr(trainable_size, "measure_step_seconds", lambda *arguments: step_seconds)
    size = measure_trainable_size(space, settings)
    assert size is not None
    doublings = np.log2(size.max_flops / 500_000)
    assert doublings == pytest.approx(round(doublings))
    assert doublings > 0

    def count_allowed(max_flops: float) -> int:
        limits = Limits.parse(max_params="50k").with_max_flops(max_flops)
        limited_space = ConstrainedSpace(load_space("convnet"), limits)
        rng = np.random.default_rng(3)
        archs = (space.space.sample(rng) for _ in range(200))
        return sum(limited_space.allows(limited_space._scale_to_limits(arch)) for arch in archs)

    assert count_allowed(size.max_flops) > 10
    assert count_allowed(500_000) == 0
