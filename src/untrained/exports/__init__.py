"""A network taken out: plain source, weights, ONNX, and how to use them; nothing of ours is needed there."""

from untrained.exports.export import Exported as Exported
from untrained.exports.export import export as export
from untrained.exports.export import ready as ready
