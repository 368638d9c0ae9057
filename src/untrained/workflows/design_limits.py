"""Check hand-designed networks for tables against the limits of a search."""

from collections.abc import Mapping, Sequence

import torch

from untrained.config import Limits, SearchConfig
from untrained.engine.failures import catch_failure
from untrained.errors import Unscorable
from untrained.formatting import format_limited_value
from untrained.probe import Probe
from untrained.probe.guard import random_state
from untrained.strategies.latency import LatencyTimer, Runtime
from untrained.strategies.max_latency import FINAL_RUNS
from untrained.training.ctr_designs import CTR_DESIGNS
from untrained.types import Batch, Failure, Record, Task

_UNITS = {
    "max_params": " parameters",
    "min_params": " parameters",
    "max_flops": " multiply-adds",
    "max_memory": " of memory",
}


def measure_design(
    name: str, task: Task, config: SearchConfig, records: Sequence[Record]
) -> dict[str, float | None]:
    """Measure what the search limits in a hand-designed network: parameters, latency and so on.

    Args:
        name: Name of the network.
        task: What it is built for.
        config: The config of the search.
        records: The records of the search. Latency is measured in the same runtime as theirs.

    Returns:
        Values by name of the limit; None for a value that cannot be measured here.
    """
    limit_texts = config.limit_texts
    if not limit_texts:
        return {}
    with random_state(0):
        network = CTR_DESIGNS[name](task).eval()
    probe = Probe(network, Batch(torch.zeros(1, *task.input_shape), torch.zeros(1)))
    values: dict[str, float | None] = {}
    for limit in limit_texts:
        # The part after the underscore is what is limited: `params` of `max_params`.
        quantity = limit.partition("_")[2]
        try:
            if quantity == "params":
                values[limit] = probe.params
            elif quantity == "flops":
                values[limit] = probe.macs
            elif quantity == "memory":
                values[limit] = probe.memory
        except Unscorable:
            values[limit] = None
    max_latency = Limits.parse(**limit_texts).max_latency
    if max_latency is not None:
        values["max_latency"] = None
        # A table of another device has no latencies of these networks.
        if config.latency_table is None:
            timer = LatencyTimer(
                max_latency.device, runtime=_find_runtime(records), runs_per_round=FINAL_RUNS
            )
            latency = catch_failure(timer.time_network, network, task.input_shape)
            if not isinstance(latency, Failure):
                values["max_latency"] = latency.seconds
    return values


def _find_runtime(records: Sequence[Record]) -> Runtime:
    """Return the runtime in which the search measured latencies."""
    for record in records:
        if record.measure.startswith("latency(runtime=onnx"):
            return "onnx"
    return "torch"


def describe_violation(values: Mapping[str, float | None], limit_texts: Mapping[str, str]) -> str:
    """Describe the first limit that a network violates; empty if it satisfies all.

    Args:
        values: What `measure_design` returns.
        limit_texts: The limits as the user typed them, by name.
    """
    limits = Limits.parse(**limit_texts)
    for name, value in values.items():
        if value is None:
            option = name.replace("_", "-")
            return f"its value for --{option} {limit_texts[name]} is unknown"
        limit = getattr(limits, name)
        if name == "max_latency":
            is_violated = limit.is_exceeded_by(value)
        elif name == "min_params":
            is_violated = value < limit
        else:
            is_violated = value > limit
        if is_violated:
            side = "below" if name == "min_params" else "over"
            amount = f"{format_limited_value(name, value)}{_UNITS.get(name, '')}"
            return f"{amount}, {side} the limit {limit_texts[name]}"
    return ""
