"""The papers: their tables and figures as experiments, each with the published numbers beside ours.

    reproduce("dextr-table-1", samples=300, device="cuda")
    ITEMS                                                       what there is

This room plans and compares; measuring is done by the studies.
"""

from untrained.papers import (  # noqa: F401 - they register themselves
    dextr,
    dextr_figures,
    dextr_searches,
    hnas,
    hnas_ablations,
    hnas_cells,
    hnas_search_figures,
    hnas_searches,
    nasi,
    nasi_searches,
    sigeo,
    sigeo_ctr,
    sigeo_figures,
    sigeo_resnet,
    sigeo_warmup,
)
from untrained.papers._item import ITEMS as ITEMS
from untrained.papers._item import Effort as Effort
from untrained.papers._item import Item as Item
from untrained.papers._item import Line as Line
from untrained.papers._item import Reproduction as Reproduction
from untrained.papers.reproduce import reproduce as reproduce
from untrained.papers.reproduce import states as states
