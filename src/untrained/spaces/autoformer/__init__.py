"""AutoFormer: vision transformers; `space.py` describes the three spaces."""

from untrained.spaces.autoformer.space import autoformer_base as autoformer_base
from untrained.spaces.autoformer.space import autoformer_small as autoformer_small
from untrained.spaces.autoformer.space import autoformer_tiny as autoformer_tiny
