"""NAS-Bench-101; `space.py` describes the space, its notation and the network."""

from untrained.spaces.nasbench101.space import nasbench101 as nasbench101
