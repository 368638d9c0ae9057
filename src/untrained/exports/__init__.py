"""Export of a network as plain source, weights, ONNX and programs that run without `untrained`."""
