"""Who judges in a search: the proxy that decides, those recorded beside it, and those that screen before."""

from dataclasses import dataclass

from untrained._load import names_file, split_names
from untrained.engine.aggregates import expanded
from untrained.engine.measure import told_apart
from untrained.proxies import Proxy, load_proxy
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
        return Panel(
            judge, tuple(told_apart(judges).values()), sieve, {load_proxy(name).measure: name for name in names}
        )

    @property
    def everybody(self) -> list[Proxy]:
        return list(told_apart((*self.judges, *(self.sieve.proxies if self.sieve else ()))).values())

    @property
    def asked(self) -> str:
        """The proxy that decides, as it can be typed again."""
        name = self.typed.get(self.judge.measure, "")
        return name if names_file(name) else self.judge.label
