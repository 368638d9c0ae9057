"""The three search spaces of NAS-Bench-1Shot1; `space.py` describes them."""

from untrained.spaces.nasbench1shot1.space import nasbench1shot1_s1 as nasbench1shot1_s1
from untrained.spaces.nasbench1shot1.space import nasbench1shot1_s2 as nasbench1shot1_s2
from untrained.spaces.nasbench1shot1.space import nasbench1shot1_s3 as nasbench1shot1_s3
