"""untrained: find neural architectures without training them.

The public page. Names load on first use, so that `import untrained` takes no time and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from untrained.version import __version__ as __version__

if TYPE_CHECKING:
    from untrained.papers.reproduce import reproduce as reproduce
    from untrained.probe import Probe as Probe
    from untrained.proxies import proxy as proxy
    from untrained.spaces import load_space as load_space
    from untrained.spaces import space as space
    from untrained.types import Arch as Arch
    from untrained.types import Record as Record
    from untrained.types import Task as Task
    from untrained.workflows.bench import bench as bench
    from untrained.workflows.calibrate import calibrate as calibrate
    from untrained.workflows.export import export as export
    from untrained.workflows.report import report as report
    from untrained.workflows.score import score as score
    from untrained.workflows.search import search as search
    from untrained.workflows.train import train as train

_HOMES = {
    "score": "workflows.score",
    "search": "workflows.search",
    "bench": "workflows.bench",
    "calibrate": "workflows.calibrate",
    "reproduce": "papers",
    "train": "workflows.train",
    "export": "workflows.export",
    "report": "workflows.report",
    "load_space": "spaces",
    "space": "spaces",
    "proxy": "proxies",
    "Probe": "probe",
    "Arch": "types",
    "Record": "types",
    "Task": "types",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'untrained' has no attribute {name!r}")
    value = getattr(import_module(f"untrained.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
