"""Register a space of ZenNAS's networks."""

from functools import partial

from untrained.options import Count
from untrained.spaces.core.space import Choose, NetworkBuilder, Space, register_space, space
from untrained.spaces.zennas.counts import count_arch
from untrained.spaces.zennas.mutations import StructureMutation
from untrained.spaces.zennas.network import PlainNet, ZenConfig
from untrained.spaces.zennas.structure import (
    StructureNotation,
    choose_structure,
    make_structure_diagram,
)
from untrained.types import Task


def register_zennas_space(
    name: str, about: str, mutation: StructureMutation, task: Task, default_initial: str
) -> Space:
    """Create and register a space.

    Args:
        name: Public name.
        about: One sentence for lists and documentation.
        mutation: Types of blocks, initial structures, and how structures change.
        task: Default task.
        default_initial: Name of the default initial structure.
    """

    # `initial`, `variant` and `replacements` decide how structures are sampled and mutated, not
    # what is built.
    def choose_network(
        choose: Choose,
        task: Task,
        *,
        use_se: bool = False,
        no_reslink: bool = False,
        no_BN: bool = False,
        max_layers: Count = 30,
        initial: str = default_initial,
        variant: str = "default",
        replacements: Count = 1,
    ) -> NetworkBuilder:
        blocks = choose_structure(choose, mutation.kinds, max_layers)
        return partial(PlainNet, blocks, task, ZenConfig(use_se, no_reslink, no_BN))

    # The decorator takes name and description from the function.
    choose_network.__name__ = name
    choose_network.__doc__ = about
    make_space = space(
        task=task,
        notation=StructureNotation(mutation.kinds),
        draw=make_structure_diagram,
        mutate=mutation.mutate,
        sample=mutation.sample,
        counts=count_arch,
    )
    return register_space(make_space(choose_network))
