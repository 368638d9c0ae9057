"""Data: one door, `load(name, like)`, gives a `Source` of batches. Embedded and offline: noise, photos, digits, clicks.

noise   photos   digits   cifar10   cifar100   mnist   fashion_mnist
folder:PATH   images:PATH.csv   npz:PATH   hf:NAME
clicks   csv:PATH   parquet:PATH   criteo:PATH   avazu:PATH   kdd2012:PATH   frappe:PATH
"""

from untrained.data import (  # noqa: F401 - they register themselves
    cifar,
    clicks,
    embedded,
    folders,
    hugging_face,
    mnist,
    npz,
    tables,
)
from untrained.data._progress import listening as listening
from untrained.data._source import SOURCES as SOURCES
from untrained.data._source import Card as Card
from untrained.data._source import Source as Source
from untrained.data._source import data_root as data_root
from untrained.data._source import from_tensors as from_tensors
from untrained.data._source import load as load
from untrained.data._source import sized as sized
from untrained.data.parts import TEST as TEST
from untrained.data.parts import TRAIN as TRAIN
from untrained.data.parts import VAL as VAL
from untrained.data.parts import Part as Part
from untrained.data.parts import Parts as Parts
from untrained.data.parts import Pictures as Pictures
