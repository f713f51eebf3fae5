"""Every table and figure of the paper, made again and set beside what was published."""
