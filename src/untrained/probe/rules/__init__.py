"""Taylor rules of torch's functions. Importing this package fills `jets.RULES`."""

from untrained.probe.rules import attention, norms, pointwise, pooling, structure  # noqa: F401
