"""Search strategies: `ask` returns architectures to score, `tell` passes their records back.

One file per strategy. `driver.py` runs a strategy until the budget of `budget.py` is spent.
`limits.py` gives it only architectures that satisfy the user's limits.
"""

from untrained.strategies import (  # noqa: F401 - importing a module registers its strategy
    best_of_pool,
    evolution,
    hnas,
    local,
    nasi,
    nsga2,
    random,
    zerocost_pt,
)
from untrained.strategies.base import STRATEGIES as STRATEGIES
from untrained.strategies.base import Strategy as Strategy
