"""Data sources: `load_data` opens data by name and returns a `DataSource` of batches.

    noise   photos   digits   clicks                              in memory, without files
    cifar10   cifar100   mnist   fashion_mnist                    files of the publisher
    folder:PATH   images:PATH.csv   npz:PATH   hf:NAME            your pictures
    csv:PATH   parquet:PATH                                       your tables
    criteo:PATH   avazu:PATH   kdd2012:PATH   frappe:PATH         public click logs

It also accepts tensors, numpy arrays, a torch Dataset and a DataLoader.
"""

from untrained.data import (  # noqa: F401 - importing a module registers its sources
    cifar,
    clicks,
    embedded,
    hugging_face,
    mnist,
    npz,
)
from untrained.data.parts import TEST as TEST
from untrained.data.parts import TRAIN as TRAIN
from untrained.data.parts import VAL as VAL
from untrained.data.parts import ImagePart as ImagePart
from untrained.data.parts import Part as Part
from untrained.data.parts import Parts as Parts
from untrained.data.pictures import folders  # noqa: F401 - registers its sources
from untrained.data.registry import SOURCES as SOURCES
from untrained.data.registry import load_data as load_data
from untrained.data.source import Card as Card
from untrained.data.source import DataSource as DataSource
from untrained.data.source import make_tensor_source as make_tensor_source
from untrained.data.source import set_input_size as set_input_size
from untrained.data.tables import sources  # noqa: F401 - registers its sources
from untrained.data_root import find_data_root as find_data_root
