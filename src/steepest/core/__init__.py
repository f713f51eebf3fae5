"""What every room may use and what knows no room: seeds, files, locks, journals, tables, names, progress."""
