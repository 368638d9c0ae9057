"""The question of a run: everything that decides which records its ranking is made of.

A run folder keeps its store when the budget changes, when the data behind a name change, and when
other stores are merged into it. So the store notes for each question which records the run asked for,
and `run.json` names the question.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from hashlib import sha256

from untrained.types import ScoreRequest


def name_question(
    description: Mapping[str, object],
    stops: Sequence[object],
    requests: Iterable[ScoreRequest],
) -> str:
    """Name a question by a digest of what it depends on.

    Args:
        description: What the run asks for, as plain data.
        stops: When the search ends, and what is done with its ranking: budget, time, confirmation.
        requests: What is asked about each architecture. Data and weights are part of a request.

    Returns:
        Sixteen hexadecimal digits, equal for equal questions.
    """
    keys = [astuple(request.key) for request in requests]
    text = json.dumps([dict(description), list(stops), keys], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]
