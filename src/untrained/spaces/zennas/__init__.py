"""Code of ZenNAS's networks. `mobilenetv2.py` and `zen_resnet.py` define the two spaces."""
