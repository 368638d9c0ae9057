"""Measurements of one network on one batch; see `Probe` in `probe.py`.

All hooks and derivatives that proxies need are in this package. (Outside of it, only the tracers of
`exports/` and `drawings/`, the gradient steps of NASI and trainings use hooks or autograd.) The
sub-package `batched` measures many networks at once and is not used by ordinary scoring.
"""

from untrained.probe.probe import Probe as Probe
