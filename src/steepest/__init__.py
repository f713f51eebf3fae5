"""Active learning by gradient norm."""
