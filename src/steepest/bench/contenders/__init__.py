"""Ways to compute a batch's gradient norms, one file each."""
