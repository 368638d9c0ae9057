"""Measurements of one network on one batch; see `Probe` in `probe.py`.

This is the only package with hooks and autograd transforms. The sub-package `batched` measures many
networks at once and is not used by ordinary scoring.
"""

from untrained.probe.probe import Probe as Probe
