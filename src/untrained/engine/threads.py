"""The number of CPU threads that torch computes with."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let torch compute with this number of threads inside the block.

    The number of threads determines the order of summation, and so the last digits of a sum.
    """
    count_before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(count_before)
