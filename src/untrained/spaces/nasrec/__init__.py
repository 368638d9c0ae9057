"""NASRec: networks for click-through-rate prediction; `space.py` describes the two spaces."""

from untrained.spaces.nasrec.space import nasrec_full as nasrec_full
from untrained.spaces.nasrec.space import nasrec_small as nasrec_small
