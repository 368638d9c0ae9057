"""A hint for several worker processes that share one GPU."""

import os
import shutil
from pathlib import Path

from untrained.cli.terminal.text import print_line
from untrained.config import ComputeConfig

# NVIDIA's Multi-Process Service (MPS) lets several processes use a GPU at the same time. Without
# it, only one process can use it at a time.
MPS_DAEMON = "nvidia-cuda-mps-control"
MPS_PIPE_DIRECTORY = "/tmp/nvidia-mps"


def print_gpu_hint(compute: ComputeConfig, as_json: bool) -> None:
    """Suggest MPS if several local workers share a GPU and its daemon is not running."""
    if as_json or compute.ray or compute.workers is None:
        return
    if not compute.device.startswith("cuda") or shutil.which(MPS_DAEMON) is None:
        return
    if _mps_is_running():
        return

    import torch

    # "cuda:1" means one GPU; "cuda" means all GPUs, at most one per worker.
    max_gpus = 1 if ":" in compute.device else compute.workers
    gpu_count = min(torch.cuda.device_count(), max_gpus)
    if 0 < gpu_count < compute.workers:
        print_line(
            f"several workers share a GPU; they run faster if you start `{MPS_DAEMON} -d` first",
            err=True,
        )


def _mps_is_running() -> bool:
    directory = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", MPS_PIPE_DIRECTORY)
    return Path(directory).exists()
