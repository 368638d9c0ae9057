"""The ResNet space of ZenNAS (arXiv:2102.01063; `search_space_XXBL` in its code).

A stem, blocks of two kinds, a 1x1 convolution. A sublayer of `SuperResK3K3` is one residual unit of two convolutions
k x k; a sublayer of `SuperResK1K3K1` is *two* bottleneck units 1x1, k x k, 1x1. The first unit of a block projects
always, also where nothing changes.

The published search allows 30 layers on ImageNet and 18 on CIFAR and caps widths at 2048 (some published networks are
wider); the last convolution may change. Its initial ImageNet structure cannot run as written, because its last
convolution takes 256 channels and gets 512; the search never notices, as its first step links widths. Ours is repaired.
Types of blocks are not drawn evenly there (`_walk.py`; `variant="published"`). The choices make about 10^203 structures
of up to 30 layers; no paper states the size of this space, and a search only sees what lies around its start.
"""

from untrained.spaces._plainnet_size import flops as flops
from untrained.spaces._plainnet_size import model_size as model_size
from untrained.spaces._plainnet_size import num_layers as num_layers
from untrained.spaces._plainspace import plain_space
from untrained.spaces._walk import Walk
from untrained.types import Task

INITIAL = {
    "imagenet": "SuperConvK3BNRELU(3,32,2,1)SuperResK3K3(32,64,2,32,1)SuperResK3K3(64,128,2,64,1)"
    "SuperResK3K3(128,256,2,128,1)SuperResK3K3(256,512,2,256,1)SuperConvK1BNRELU(512,512,1,1)",
    "cifar": "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,1,8,1)SuperResK3K3(16,32,2,16,1)"
    "SuperResK3K3(32,64,2,32,1)SuperResK3K3(64,64,2,32,1)SuperConvK1BNRELU(64,128,1,1)",
}
FAMILIES = tuple(tuple(name.format(k) for k in (3, 5, 7)) for name in ("SuperResK1K{0}K1", "SuperResK{0}K{0}"))
WALK = Walk(FAMILIES, INITIAL, widest=2048, last_changes=True)

zen_resnet = plain_space(
    "zen_resnet",
    "Residual and bottleneck blocks with any widths, kernels and depths: ResNet as ZenNAS searches it.",
    WALK,
    Task("cifar10", (3, 32, 32), 10),
    start="cifar",
)
