"""The backward pass: gradients become squared norms the moment they arrive."""
