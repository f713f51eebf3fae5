"""Every table and figure of the paper, reproduced beside the published numbers."""
