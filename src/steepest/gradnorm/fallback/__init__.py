"""Sample by sample through the whole model: the last resort, and the proof of the rest."""
