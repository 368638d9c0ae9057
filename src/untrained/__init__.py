"""untrained: find neural architectures without training them.

The public page. Names load on first use, so that `import untrained` takes no time and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from untrained.engine import score as score
    from untrained.exports import export as export
    from untrained.papers import reproduce as reproduce
    from untrained.probe import Probe as Probe
    from untrained.proxies import proxy as proxy
    from untrained.reports import report as report
    from untrained.spaces import load_space as load_space
    from untrained.spaces import space as space
    from untrained.strategies import search as search
    from untrained.studies import bench as bench
    from untrained.studies import calibrate as calibrate
    from untrained.training import train as train
    from untrained.types import Arch as Arch
    from untrained.types import Record as Record
    from untrained.types import Task as Task

__version__ = "0.1.0"

_HOMES = {
    "score": "engine",
    "search": "strategies",
    "bench": "studies",
    "calibrate": "studies",
    "reproduce": "papers",
    "train": "training",
    "export": "exports",
    "report": "reports",
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
