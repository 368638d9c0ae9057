"""The MobileNetV2 space of ZenNAS (arXiv:2102.01063), ZiCo (arXiv:2301.11300), AZ-NAS and Dextr.

A network has a stem, blocks `SuperResIDWE{e}K{k}` of inverted depthwise residual units, and a 1x1
convolution. A sublayer of a block is two units. The first is a 1x1 convolution to e times the width
of the bottleneck, a depthwise k x k convolution, and a 1x1 convolution to the bottleneck. The
second is the same with the width of the block instead of the bottleneck. Each unit has a residual
connection, with a projection where the width changes, and ReLU after the sum.

The published search starts at `INITIAL_STRUCTURES`, allows 14 layers (450 M and 600 M
multiply-adds) or 16 (1 G), never changes the width of the last convolution, and prefers some types
of blocks by accident (see `zennas/mutations.py`, `variant="published"`). It does not limit widths;
our limit is 8192. The choices give about 10^110 structures of up to 16 layers and 10^211 of up to
30. The default is 30, the largest limit in any published run. No paper states the size of this
space, and a search only visits the neighbourhood of its initial structure.
"""

from untrained.spaces.zennas.mutations import StructureMutation
from untrained.spaces.zennas.space import register_zennas_space
from untrained.types import Task

INITIAL_STRUCTURES = {
    "imagenet": (
        "SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)SuperResIDWE6K3(32,48,2,32,1)"
        "SuperResIDWE6K3(48,96,2,48,1)SuperResIDWE6K3(96,128,2,96,1)"
        "SuperConvK1BNRELU(128,2048,1,1)"
    )
}


def _list_kinds() -> tuple[str, ...]:
    kinds = []
    for kernel in (3, 5, 7):
        for expansion in (1, 2, 4, 6):
            kinds.append(f"SuperResIDWE{expansion}K{kernel}")
    return tuple(kinds)


KINDS = _list_kinds()
MUTATION = StructureMutation((KINDS,), INITIAL_STRUCTURES)

mobilenetv2 = register_zennas_space(
    "mobilenetv2",
    "Inverted depthwise residual blocks of any width, kernel and depth: MobileNetV2 in ZenNAS.",
    MUTATION,
    Task("imagenet", (3, 224, 224), 1000),
    default_initial="imagenet",
)
