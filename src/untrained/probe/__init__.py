"""The Probe and what it measures; see `probe.py`."""

from untrained.probe.probe import Probe as Probe
