"""A space of ZenNAS' networks: its structures, how they are drawn and mutated, and what is built of them."""

from functools import partial
from typing import Any

from untrained._options import Count
from untrained.spaces._plainnet import PlainNet, Style
from untrained.spaces._plainnet_size import counts
from untrained.spaces._space import SPACES, Space, space
from untrained.spaces._structure import Structures, chosen, sketch
from untrained.spaces._walk import Walk
from untrained.types import Task


def plain_space(name: str, about: str, walk: Walk, task: Task, start: str) -> Space:
    """Register the space of what `walk` reaches. `start` names its usual initial structure."""

    def network(
        choose: Any,
        task: Task,
        *,
        use_se: bool = False,
        no_reslink: bool = False,
        no_BN: bool = False,
        max_layers: Count = 30,
        initial: str = start,
        variant: str = "default",
        replacements: Count = 1,
    ) -> Any:
        """`initial`, `variant` and `replacements` decide how structures are drawn and mutated, not what is built."""
        return partial(PlainNet, chosen(choose, walk.kinds, max_layers), task, Style(use_se, no_reslink, no_BN))

    network.__name__, network.__doc__ = name, about
    strings = Structures(walk.kinds)
    make = space(task=task, notation=strings, sketch=sketch, mutation=walk.mutate, sampling=walk.sample, counts=counts)
    return SPACES.add(name, make(network))
