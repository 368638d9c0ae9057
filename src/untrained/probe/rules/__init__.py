"""The Taylor rules of torch's functions; importing this package fills `jets.RULES`."""

from untrained.probe.rules import attention, norms, pointwise, pooling, structure  # noqa: F401
