"""A local page for labelling: the project's queue, pictures and statistics in a browser.

Needs the extra ``steepest[label]``; nothing in here is imported before a page is wanted.
"""
