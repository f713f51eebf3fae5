"""Ways to a batch's gradient norms, and what they are measured against: one file each."""
