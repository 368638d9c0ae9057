"""The DARTS space and NASI's variant of it; `space.py` describes both."""

from untrained.spaces.darts.space import darts as darts
from untrained.spaces.darts.space import darts_nasi as darts_nasi
