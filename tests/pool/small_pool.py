"""A small pool on disk with awkward names, and all that can be asked of a pool."""

from __future__ import annotations

from steepest.pool import Pool

ODD_IDS = ["a/b.png", "zwölf 十二.jpg", "line\nbreak", 'quote"\\', "\u2028\x00\t", ""]


def picture(pool):
    """Everything that can be asked of a pool."""
    return (
        [(i, pool.state(i), pool.cycle_of(i), pool.history(i)) for i in pool.ids()],
        pool.labelled(),
        pool.counts(),
        list(pool.events()),
    )


def fill(path):
    """Make a small pool on disk whose last entry is a label."""
    with Pool.create(ODD_IDS, path) as pool:
        pool.query(ODD_IDS[:3], cycle=0, who="loop")
        pool.skip(ODD_IDS[:1], cycle=0, who="Zoë", reason="zu dunkel")
        pool.label(ODD_IDS[1:3], ["chat\nnoir", [1, 2]], cycle=0, who="Zoë")
