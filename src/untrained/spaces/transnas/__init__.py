"""TransNAS-Bench-101; `space.py` describes the micro and the macro space."""

from untrained.spaces.transnas.space import transnas_macro as transnas_macro
from untrained.spaces.transnas.space import transnas_micro as transnas_micro
