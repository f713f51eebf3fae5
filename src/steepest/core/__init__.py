"""Seeds, files, locks, journals, tables, names and progress: used by every room, using none."""
