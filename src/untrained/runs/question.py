"""The question of a run: everything that decides which records its ranking uses.

The store of a run may hold other records too: it is kept when the budget changes or when the
content of the data changes, and other stores can be merged into it. So the store lists the records
of each question, and `run.json` holds the fingerprint of the current question.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from hashlib import sha256

from untrained.types import ScoreRequest


def fingerprint_question(
    description: Mapping[str, object],
    stops: Sequence[object],
    requests: Iterable[ScoreRequest],
) -> str:
    """Return the fingerprint of a question.

    Args:
        description: The configuration of the run, as plain data.
        stops: The settings that end the search, and the number of confirmation trainings.
        requests: The requests for one architecture, which identify proxies, data and weights.

    Returns:
        Sixteen hexadecimal digits, equal for equal questions.
    """
    keys = [astuple(request.key) for request in requests]
    text = json.dumps([dict(description), list(stops), keys], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]
