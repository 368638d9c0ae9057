"""Measure the latency of the networks in this folder: python measure.py

Needs only onnxruntime and numpy. Reads archs.csv and writes latencies.csv, both beside this file.
Other programs slow down a measurement, so close them first.
"""

import argparse
import csv
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

HERE = Path(__file__).resolve().parent
COLUMNS = ["arch", "milliseconds", "input_values", "machine"]
WARM_UP = 5
# More passes are measured while the median of all exceeds the result by this factor.
MAX_SPREAD = 1.25
MAX_ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure the latency of the networks in this folder."
    )
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument(
        "--runs",
        type=int,
        default=30,
        help="forward passes per round (default 30; up to 3 rounds)",
    )
    parser.add_argument("--machine", default=platform.node(), help="name of this machine")
    options = parser.parse_args()
    with open(HERE / "archs.csv", newline="", encoding="utf-8") as file:
        networks = list(csv.DictReader(file))
    partial_file = HERE / "latencies.csv.part"
    with open(partial_file, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, network in enumerate(networks, 1):
            shape = [int(side) for side in network["input"].split("x")]
            seconds = measure_file(HERE / network["file"], shape, options.threads, options.runs)
            milliseconds = f"{1e3 * seconds:.6g}"
            writer.writerow([network["arch"], milliseconds, int(np.prod(shape)), options.machine])
            print(f"{number}/{len(networks)}: {milliseconds} ms", flush=True)
    os.replace(partial_file, HERE / "latencies.csv")
    print(f"wrote {HERE / 'latencies.csv'}")


def measure_file(path: Path, shape: list[int], threads: int, runs: int) -> float:
    """Return the seconds of a forward pass with one sample.

    Other programs make passes slower and never faster, so the result is not the median but the
    tenth percentile.
    """
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    (network_input,) = session.get_inputs()
    inputs = np.random.default_rng(0).random((1, *shape), dtype=np.float32)
    feed = {network_input.name: inputs}
    clock = choose_clock(threads)
    for _ in range(WARM_UP):
        session.run(None, feed)
    times: list[float] = []
    for _ in range(MAX_ROUNDS):
        for _ in range(runs):
            start = clock()
            session.run(None, feed)
            times.append(clock() - start)
        times.sort()
        seconds = times[len(times) // 10]
        if times[len(times) // 2] <= MAX_SPREAD * seconds:
            break
    return seconds


def choose_clock(threads: int) -> Callable[[], float]:
    """Return the clock for the measurement.

    The CPU time of this thread is not affected by other programs, but it covers the whole forward
    pass only if there is one thread. Otherwise, or if that clock is too coarse, use the wall clock.
    """
    is_fine = time.get_clock_info("thread_time").resolution <= 1e-6
    if threads == 1 and is_fine:
        return time.thread_time
    return time.perf_counter


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped")
