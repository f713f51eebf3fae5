"""Per-sample gradients, built or not, and the cheapest way to their squared norms."""
