"""What the spaces of ZenNAS share: `mobilenetv2.py` and `zen_resnet.py` define the spaces."""
