"""Faster training steps on a GPU: recorded as one graph, or traced, rewritten and compiled."""
