"""Running statistics of batch norms, measured with the final weights.

Running statistics are moving averages over the steps of a training. After a few steps they still
contain the initial values, and a moving average of the weights has statistics of other weights. A
deep network that has learnt something may then be at chance level in evaluation mode, which a
contest of short trainings must not punish.
"""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from untrained.probe.guard import random_state
from untrained.training.evaluation import apply_memory_format
from untrained.types import Batch

# This many samples are enough.
SAMPLES = 1000


def measure_norm_statistics(
    model: nn.Module, batches: Iterable[Batch], memory_format: torch.memory_format
) -> None:
    """Replace the running statistics of all batch norms by their means over some batches.

    A network without batch norms is not changed.

    Args:
        model: The network. It is left in evaluation mode.
        batches: Training samples without augmentation.
        memory_format: Memory format of the inputs.
    """
    norms = []
    for module in model.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            norms.append(module)
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        # Without a momentum, the statistics are plain means over all batches. Only the norms are in
        # training mode, so that nothing is dropped.
        norm.momentum = None
        norm.train()
    samples = 0
    with torch.no_grad(), random_state(0):
        for batch in batches:
            model(apply_memory_format(batch.inputs, memory_format))
            samples += len(batch.inputs)
            if samples >= SAMPLES:
                break
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()
