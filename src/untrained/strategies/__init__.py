"""Strategies: `ask` for architectures, `tell` what was found. `search` drives any of them over any space."""

from untrained.strategies import evolution, hnas, local, nasi, nsga2, random, screen, zerocost_pt  # noqa: F401 - they register themselves
from untrained.strategies._strategy import STRATEGIES as STRATEGIES
from untrained.strategies._strategy import Strategy as Strategy
from untrained.strategies.search import Result as Result
from untrained.strategies.search import search as search
