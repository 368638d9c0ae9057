"""Who judges in a search: the proxy that decides, those recorded beside it, those that screen before, and whoever has
the last word instead of a proxy."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from untrained.engine.worker import index_proxies
from untrained.names import is_reference, split_names
from untrained.proxies import Proxy, load_proxy
from untrained.runs.aggregates import expand_aggregates
from untrained.runs.ranking import compute_fitness
from untrained.strategies.base import Fitness
from untrained.strategies.screening import Screening
from untrained.workflows.validation import Validation

BASELINES = ("params", "flops")
COSTS = (
    "size"  # what is measured by proxies of which less is better, where another one is to be high
)


@dataclass(frozen=True)
class ScoringPlan:
    """`judge` decides, `judges` are all who see what was kept, `sieve` sees everybody before. Where there is a
    `validation` it decides, and `pool` are those who say what it sees."""

    judge: Proxy
    judges: tuple[Proxy, ...]
    beside: tuple[Proxy, ...]
    pool: tuple[Proxy, ...]
    sieve: Screening | None
    validation: Validation | None
    typed: dict[str, str]  # by measure: the names that were typed

    @staticmethod
    def of(
        proxy: str | Proxy,
        beside: str,
        sieve: Screening | None,
        validation: Validation | None = None,
        pool: Sequence[str] = (),
    ) -> "ScoringPlan":
        judge, more = load_proxy(proxy), tuple(load_proxy(name) for name in split_names(beside))
        asked = tuple(load_proxy(name) for name in pool) or (judge,)
        dear = [validation.training] if validation and validation.training else []
        others = [*dear, *asked, *(load_proxy(name) for name in BASELINES), *more]
        judges = expand_aggregates(
            [judge, *(other for other in others if other.measure != judge.measure)]
        )
        names = [proxy] if isinstance(proxy, str) else []
        names += [*pool, *split_names(beside), *(sieve.names if sieve else ())]
        typed = {load_proxy(name).measure: name for name in names}
        typed |= {validation.measure: validation.typed} if validation and dear else {}
        return ScoringPlan(
            judge, tuple(index_proxies(judges).values()), more, asked, sieve, validation, typed
        )

    @property
    def everybody(self) -> list[Proxy]:
        return list(
            index_proxies((*self.judges, *(self.sieve.proxies if self.sieve else ()))).values()
        )

    @property
    def decides(self) -> Proxy | Validation:
        """Whose measure makes the ranking."""
        return self.validation or self.judge

    @property
    def fit(self) -> Fitness:
        """What a search makes the most of."""
        return _fit(self.decides, self.decides.higher_is_better)

    @property
    def by(self) -> Fitness:
        """What a pool is ranked by before anybody has the last word."""
        return _fit(self.judge, self.judge.higher_is_better)

    @property
    def objectives(self) -> list[Fitness]:
        """What may be weighed against the first."""
        return [_fit(other, wanted_high(other)) for other in self.beside]

    def describe_objectives(self) -> list[dict[str, Any]]:
        """What a report needs to know of the proxies beside the first, without loading them."""
        facts = []
        for other in self.beside:
            facts.append(
                {
                    "label": other.label,
                    "measure": other.measure,
                    "higher_is_better": wanted_high(other),
                },
            )
        return facts

    @property
    def asked(self) -> str:
        """The proxy that decides, as it can be typed again."""
        name = self.typed.get(self.judge.measure, "")
        return name if is_reference(name) else self.judge.label


def _fit(judge: Proxy | Validation, higher_is_better: bool) -> Fitness:
    return partial(compute_fitness, measure=judge.measure, higher_is_better=higher_is_better)


def wanted_high(proxy: Proxy) -> bool:
    """Whether more of it is better as an objective beside another: of a size it is not, whatever it says as a proxy."""
    return proxy.higher_is_better and proxy.measures != COSTS
