"""Who is hired for a list of architectures."""

from contextlib import contextmanager

import pytest

from untrained.data import load
from untrained.proxies import load_proxy
from untrained.rng import generator
from untrained.spaces import load_space
from untrained.studies import _scores
from untrained.studies._scores import Crew, scored
from untrained.training.brief import NAME


class HiredError(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dextr", 3),  # one image: three networks are scored before a process has started
        ("naswot", 3),  # one pass of 128
        (f"{NAME}(epochs=1,samples=1000)", None),  # a training of 1,000: as if there were many
    ],
)
def test_a_few_networks_are_worth_processes_where_each_of_them_is_dear(name, told, monkeypatch, tmp_path):
    @contextmanager
    def hired(job, workers, ray, limit, networks, later):
        assert (workers, networks) == (None, told)
        raise HiredError
        yield

    monkeypatch.setattr(_scores, "hired", hired)
    space = load_space("nasbench201")
    archs = [space.sample(generator(seed)) for seed in range(3)]
    with pytest.raises(HiredError):
        scored("nasbench201", archs, [load_proxy(name)], load("noise", space.task), (0,), Crew(), tmp_path / "s.sqlite")
