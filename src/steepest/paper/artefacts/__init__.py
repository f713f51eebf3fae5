"""One file per artefact; dropping a file in here is enough."""
