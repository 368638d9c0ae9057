"""The ResNet space of ZenNAS (arXiv:2102.01063; `search_space_XXBL` in its code).

A network has a stem, blocks of two kinds and a 1x1 convolution. A sublayer of `SuperResK3K3` is one
residual unit of two convolutions k x k; a sublayer of `SuperResK1K3K1` is *two* bottleneck units of
1x1, k x k and 1x1 convolutions. The first unit of a block always has a projection, even if neither
the width nor the resolution changes.

The published search allows 30 layers on ImageNet and 18 on CIFAR and limits widths to 2048 (some
published networks are wider). It may change the last convolution. It does not sample all types of
blocks equally often (see `zennas/mutations.py`, `variant="published"`).

The published initial structure for ImageNet cannot run as written: its last convolution expects 256
channels and gets 512. The search does not notice, because its first step corrects the input widths.
Our initial structure is corrected.

The choices give about 10^203 structures of up to 30 layers. No paper states the size of this space,
and a search only visits the neighbourhood of its initial structure.
"""

from untrained.spaces.zennas.mutations import StructureMutation
from untrained.spaces.zennas.space import register_zennas_space
from untrained.types import Task

INITIAL_STRUCTURES = {
    "imagenet": (
        "SuperConvK3BNRELU(3,32,2,1)SuperResK3K3(32,64,2,32,1)SuperResK3K3(64,128,2,64,1)"
        "SuperResK3K3(128,256,2,128,1)SuperResK3K3(256,512,2,256,1)"
        "SuperConvK1BNRELU(512,512,1,1)"
    ),
    "cifar": (
        "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,1,8,1)SuperResK3K3(16,32,2,16,1)"
        "SuperResK3K3(32,64,2,32,1)SuperResK3K3(64,64,2,32,1)SuperConvK1BNRELU(64,128,1,1)"
    ),
}
_BOTTLENECK_KINDS = tuple(f"SuperResK1K{kernel}K1" for kernel in (3, 5, 7))
_BASIC_KINDS = tuple(f"SuperResK{kernel}K{kernel}" for kernel in (3, 5, 7))
FAMILIES = (_BOTTLENECK_KINDS, _BASIC_KINDS)
MUTATION = StructureMutation(FAMILIES, INITIAL_STRUCTURES, max_width=2048, last_can_change=True)

zen_resnet = register_zennas_space(
    "zen_resnet",
    "Residual and bottleneck blocks of any width, kernel and depth: ResNet as ZenNAS searches it.",
    MUTATION,
    Task("cifar10", (3, 32, 32), 10),
    default_initial="cifar",
)
