"""All tables and figures with results in the four papers, including those that cannot be repeated.

Tables of settings (Dextr, Table 9) and diagrams (SiGeo, Figure 1; HNAS, Figure 3) have no results.
Figure 1 of Dextr counts as two, because its parts show different things.
"""

from dataclasses import dataclass

NEEDS_IMAGENET = "its numbers need trainings on ImageNet"
NEEDS_SIZE_TABLE = "it needs the size table of NATS-Bench, which is not available here"
ONLY_SEARCH = "only size and search cost; the errors need trainings on ImageNet"
NEEDS_600_EPOCHS = "its numbers need trainings of 600 epochs, several GPU days"


@dataclass(frozen=True)
class PaperItem:
    """A table or a figure.

    Attributes:
        name: Paper and number, such as `dextr-table-1`.
        content: What it shows.
        experiment: The experiment that repeats it; empty if there is none.
        line_label: Description of the line that the index shows, or the start of that description.
        reason: Why it cannot be repeated, or which part of it is missing.
    """

    name: str
    content: str
    experiment: str = ""
    line_label: str = ""
    reason: str = ""

    @property
    def paper(self) -> str:
        """The paper: `dextr`, `sigeo`, `nasi` or `hnas`."""
        return self.name.partition("-")[0]


PAPER_TITLES = {
    "dextr": "Dextr (Asthana et al.)",
    "sigeo": "SiGeo (Zhou et al.)",
    "nasi": "NASI (Shu et al., ICLR 2022)",
    "hnas": "HNAS (Shu et al., NeurIPS 2022)",
}


def _make_item(
    name: str, content: str, line_label: str = "", reason: str = "", experiment: str | None = None
) -> PaperItem:
    """Return an item whose experiment has its own name unless another one is given."""
    if experiment is None:
        experiment = name
    return PaperItem(name, content, experiment, line_label, reason)


ITEMS = (
    _make_item(
        "dextr-table-1",
        "Spearman of ten proxies with accuracy on eight tasks",
        "NB201-cf10, dextr",
    ),
    _make_item(
        "dextr-table-2",
        "DARTS network found by Dextr: size, search cost, error on ImageNet",
        "ImageNet network, parameters, M",
        ONLY_SEARCH,
        "dextr-table-2-search",
    ),
    _make_item(
        "dextr-table-3",
        "AutoFormer networks found by Dextr: size, search cost, error on ImageNet",
        "tiny, parameters, M",
        ONLY_SEARCH,
        "dextr-table-3-search",
    ),
    _make_item(
        "dextr-table-4",
        "the two terms of Dextr beside proxies of the same kind",
        "NB201-cf10, dextr",
    ),
    _make_item(
        "dextr-table-5",
        "share of layers with a largest singular value of at least 1",
        "NB201-cf10, all modules",
    ),
    _make_item(
        "dextr-table-6",
        "Spearman of Dextr on the size space of NATS-Bench",
        reason=NEEDS_SIZE_TABLE,
        experiment="",
    ),
    _make_item(
        "dextr-table-7",
        "Spearman of Dextr_opt on the size space of NATS-Bench",
        reason=NEEDS_SIZE_TABLE,
        experiment="",
    ),
    _make_item(
        "dextr-table-8",
        "MobileNetV2 network found by Dextr: size, search cost, accuracy on ImageNet",
        "FLOPs, M",
        ONLY_SEARCH,
        "dextr-table-8-search",
    ),
    _make_item(
        "dextr-figure-1a",
        "independence of features against accuracy; training curves of six networks",
        "FMI and validation accuracy",
        "only the left half: the right half shows training curves",
    ),
    _make_item("dextr-figure-1b", "outputs of six networks along a circle", "kappa of the network"),
    _make_item(
        "dextr-figure-2",
        "mean and deviation of Dextr over 10 images and 10 circles",
        "authors' code, network with 89",
    ),
    _make_item(
        "dextr-figure-3",
        "inverse condition number of the feature maps, layer by layer",
        "network with 89",
    ),
    _make_item(
        "dextr-figure-4",
        "cells that Dextr, MeCo and ZiCo find in DARTS",
        "dextr, curvature of the found networks",
    ),
    _make_item("dextr-figure-5", "Dextr against accuracy on six tasks", "NB201-cf10"),
    _make_item(
        "sigeo-table-1",
        "log loss and AUC of recommenders (an extract of Table 5)",
        "criteo, sigeo in nasrec_small, log loss",
        experiment="sigeo-table-5",
    ),
    _make_item(
        "sigeo-table-2",
        "Spearman and Kendall of fifteen proxies, zero-shot",
        "NB201-CF10, sigeo, Spearman",
    ),
    _make_item(
        "sigeo-table-3",
        "SiGeo and ZiCo after a warm-up on 0 to 40 % of the data",
        "NB201-CF10, sigeo, 40 %, Spearman",
    ),
    _make_item(
        "sigeo-table-4",
        "accuracy of residual networks of a million parameters",
        "sigeo, accuracy on CIFAR-10, %",
        "only the searches: the trainings take 1,440 epochs with a large network as teacher",
        "sigeo-table-4-search",
    ),
    _make_item(
        "sigeo-table-5",
        "log loss and AUC of recommenders, searched and hand-designed",
        "criteo, sigeo in nasrec_small, log loss",
    ),
    _make_item(
        "sigeo-figure-2",
        "three statistics of two-layer networks after 0, 10 and 40 % of an epoch",
        "code at 0.02: FR norm at 40 %",
    ),
    _make_item(
        "sigeo-figure-3",
        "log loss of recommenders against search cost, by proxy and warm-up",
        "criteo, nasrec_small, sigeo after 1 %",
    ),
    _make_item(
        "sigeo-figure-4", "recommenders selected by SiGeo and by its terms", "best by sigeo"
    ),
    _make_item(
        "sigeo-figure-5",
        "four statistics of two-layer networks without warm-up",
        "code at 0.02: FR norm at 0 %",
    ),
    _make_item(
        "sigeo-figure-6",
        "four statistics of two-layer networks after 10 % of an epoch",
        "code at 0.02: FR norm at 10 %",
    ),
    _make_item(
        "sigeo-figure-7",
        "three statistics of two-layer networks at six levels of warm-up",
        "code at 0.02: FR norm at 100 %",
    ),
    _make_item(
        "nasi-table-1",
        "error of DARTS networks found by NASI on CIFAR-10 and CIFAR-100",
        reason=NEEDS_600_EPOCHS,
        experiment="",
    ),
    _make_item("nasi-table-2", "searches with random labels and random data", "S1, standard"),
    _make_item(
        "nasi-table-3",
        "correlation of five metrics with accuracy on NAS-Bench-1Shot1",
        "S1, NASI (conditioned), Spearman",
    ),
    _make_item("nasi-table-4", "NASI's searches on NAS-Bench-201", "NASI (4T), C10"),
    _make_item(
        "nasi-table-5",
        "error of DARTS networks found by NASI on ImageNet",
        reason=NEEDS_IMAGENET,
        experiment="",
    ),
    _make_item("nasi-table-6", "searches with supernets of 2 to 32 channels", "S1, N = 32"),
    _make_item(
        "nasi-table-7", "approximations of the trace norm against the exact one", "S1, b = 64"
    ),
    _make_item("nasi-table-8", "searches with mini-batches of 8 to 128 images", "S1, b = 64"),
    _make_item(
        "nasi-figure-1",
        "trace norm with random labels and with random data",
        "S1, random labels",
    ),
    _make_item("nasi-figure-2", "searches on NAS-Bench-1Shot1 by budget", "S1, NASI, one epoch"),
    _make_item("nasi-figure-3", "test error as a function of the trace norm", "S1, bin"),
    _make_item(
        "nasi-figure-4",
        "training curves of DARTS networks by nu and mu",
        reason=NEEDS_600_EPOCHS,
        experiment="",
    ),
    _make_item(
        "nasi-figure-5",
        "cells that NASI-FIX and NASI-ADA find in DARTS",
        "fix, parameters of the network for CIFAR-10, M",
    ),
    _make_item(
        "nasi-figure-6",
        "error of DARTS networks by nu and mu",
        reason=NEEDS_600_EPOCHS,
        experiment="",
    ),
    _make_item(
        "hnas-table-1",
        "both bounds against test error on NAS-Bench-101 and -201",
        "non-realizable, NB201, Trace, Spearman",
    ),
    _make_item(
        "hnas-table-2",
        "width, depth, trace norm and condition number of published cells",
        "DARTS, M_Trace",
    ),
    _make_item(
        "hnas-table-3", "searches on NAS-Bench-201", "HNAS (Trace), the paper's ranges, C10"
    ),
    _make_item("hnas-table-4", "correlations between metrics", "NB201, Grad/Trace, Spearman"),
    _make_item(
        "hnas-table-5",
        "contributions of the trade-off and of the condition number",
        "non-realizable, C10, Trace, Spearman",
    ),
    _make_item(
        "hnas-table-6",
        "metrics on images of other data sets",
        "non-realizable, C10, Trace",
    ),
    _make_item("hnas-table-7", "queries of HNAS and of searches by training", "HNAS (Trace), C10"),
    _make_item(
        "hnas-table-8",
        "error of DARTS networks found by HNAS on CIFAR-10 and CIFAR-100",
        reason=NEEDS_600_EPOCHS,
        experiment="",
    ),
    _make_item(
        "hnas-table-9",
        "error of DARTS networks found by HNAS on ImageNet",
        reason=NEEDS_IMAGENET,
        experiment="",
    ),
    _make_item(
        "hnas-table-10",
        "both bounds under three initialisations",
        "non-realizable, LeCun, Trace, Spearman",
    ),
    _make_item(
        "hnas-table-11", "the bound by batch size", "non-realizable, 64 for M, Trace, Spearman"
    ),
    _make_item("hnas-table-12", "the bound by width", "non-realizable, 32 for M, Trace, Spearman"),
    _make_item(
        "hnas-table-13",
        "bounds with KNAS, Fisher, SynFlow and NASWOT",
        "non-realizable, C10, KNAS, Spearman",
    ),
    _make_item("hnas-table-14", "HNAS with eight metrics", "HNAS (Trace), C10"),
    _make_item("hnas-table-15", "HNAS and its training-free variant", "kappa / M_Trace, C10"),
    _make_item(
        "hnas-table-16", "HNAS with two acquisition functions", "HNAS (Trace) with UCB, C10"
    ),
    _make_item(
        "hnas-figure-1",
        "Spearman of M_Trace with the other metrics (in Table 4)",
        "NB201, Grad/Trace, Spearman",
        experiment="hnas-table-4",
    ),
    _make_item("hnas-figure-2", "test error by number of queries", "HNAS (Trace), C10"),
    _make_item(
        "hnas-figure-4",
        "test error as a function of a metric, condition number within bins",
        "Trace, bin",
    ),
    _make_item("hnas-figure-5", "progress of the bound during the search", "after"),
)
