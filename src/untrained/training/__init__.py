"""Training: the one room where weights change."""

from untrained.training.train import train as train
