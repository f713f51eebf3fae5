"""Runs any ``nn.Module`` and leaves it as it was: batches, losses, features, weights on disk."""
