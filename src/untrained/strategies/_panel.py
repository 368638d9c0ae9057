"""Who judges in a search: the proxy that decides, those recorded beside it, and those that screen before."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from untrained._load import absolute, names_file, split_names
from untrained.engine import Examiner, Job, Samples
from untrained.engine.aggregates import expanded
from untrained.errors import UsageError
from untrained.proxies import Proxy, load_proxy
from untrained.spaces import Space, load_space
from untrained.strategies.screen import Screen

BASELINES = ("params", "flops")


@dataclass(frozen=True)
class Panel:
    """`judge` decides, `judges` are all who see what was kept, `sieve` sees everybody before."""

    judge: Proxy
    judges: tuple[Proxy, ...]
    sieve: Screen | None
    typed: dict[str, str]  # by measure: the names that were typed

    @staticmethod
    def of(proxy: str | Proxy, beside: str, sieve: Screen | None) -> "Panel":
        judge = load_proxy(proxy)
        others = [load_proxy(name) for name in (*BASELINES, *split_names(beside))]
        judges = expanded([judge, *(other for other in others if other.measure != judge.measure)])
        names = [proxy] if isinstance(proxy, str) else []
        names += [*split_names(beside), *(sieve.names if sieve else ())]
        once = tuple({judge.measure: judge for judge in judges}.values())
        return Panel(judge, once, sieve, {load_proxy(name).measure: name for name in names})

    @property
    def everybody(self) -> list[Proxy]:
        return list({p.measure: p for p in (*self.judges, *(self.sieve.proxies if self.sieve else ()))}.values())

    @property
    def asked(self) -> str:
        """The proxy that decides, as it can be typed again."""
        name = self.typed.get(self.judge.measure, "")
        return name if names_file(name) else self.judge.label

    def job(self, space: str | Space, samples: Samples, device: str) -> Job | Examiner:
        """What workers do, in names where everything has one, so that other processes can do it too."""
        task, batches = samples.source.task, samples.largest()
        home = _name(space, load_space)
        names = [_name(self.typed.get(p.measure, p), load_proxy) for p in self.everybody]
        if home and all(names):
            return Job(home, tuple(name for name in names if name), task, batches, device)
        built = load_space(space)
        return Examiner(lambda arch: built.build(arch, task, device), self.everybody, task.loss, batches, device)


def _name(what: "str | Space | Proxy", load: Callable[[Any], object]) -> str | None:
    """What to type for this in another process; None for an object that no name leads to."""
    if isinstance(what, str):
        return absolute(what)
    name = what.label if isinstance(what, Proxy) else what.name
    try:
        return name if load(name) == what else None
    except UsageError:
        return None
