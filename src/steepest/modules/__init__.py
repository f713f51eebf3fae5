"""Runs any ``nn.Module`` as it is and leaves it as it was: batches, losses, precision, features, weights."""
