"""The forward pass: every call that takes parameters is seen, for all samples apart."""
