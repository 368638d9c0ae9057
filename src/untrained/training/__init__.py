"""Training of networks: recipes, the training loop, checkpoints, evaluation and warm-up."""
