"""untrained: find neural architectures without training them.

This module lists the public names. A name is imported when it is first used, so `import untrained`
is fast and does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
    from untrained.workflows.rank import rank as rank
    from untrained.workflows.report import report as report
    from untrained.workflows.score import score as score
    from untrained.workflows.search import search as search
    from untrained.workflows.train import train as train

# Public name -> module of this package that defines it.
_MODULES = {
    "score": "workflows.score",
    "rank": "workflows.rank",
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
__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'untrained' has no attribute {name!r}")
    module = import_module(f"untrained.{_MODULES[name]}")
    value = getattr(module, name)
    # Python calls this function only for missing names, so the next access is a plain lookup.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_MODULES, "__version__"])
