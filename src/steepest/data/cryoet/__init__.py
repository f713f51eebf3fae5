"""Simulated subtomograms of cryo-electron tomography.

::

    templates ── rotate, shift, resample ── CTF × wedge × low pass ── noise ── standardise

A template is the density of a particle; a volume shows one particle in a random pose, as a tilt
series of an electron microscope would. Every volume depends on the seed and its index alone.
"""

from __future__ import annotations

from steepest.data.cryoet.atoms import read_atoms_folder
from steepest.data.cryoet.contact_sheet import contact_sheet
from steepest.data.cryoet.mrc import read_mrc_folder
from steepest.data.cryoet.procedural import procedural_templates
from steepest.data.cryoet.settings import Settings
from steepest.data.cryoet.simulator import Simulator
from steepest.data.cryoet.templates import Templates, read_template_archive, write_template_archive

__all__ = [
    "Settings",
    "Simulator",
    "Templates",
    "contact_sheet",
    "procedural_templates",
    "read_atoms_folder",
    "read_mrc_folder",
    "read_template_archive",
    "write_template_archive",
]
