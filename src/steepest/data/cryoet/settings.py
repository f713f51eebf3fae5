"""The physical settings of a simulated tilt series, with units in their names."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass

from steepest.errors import InputError, UnknownNameError

SNR_MODES = ("tilt", "white", "aitom")
"""Stage at which the signal-to-noise ratio is measured; see ``steepest.data.cryoet.noise``."""

AITOM_LOW_PASS_ANGSTROM = 40.0


@dataclass(frozen=True)
class Settings:
    """Simulation settings of a subtomogram.

    Attributes:
        size_voxels: Side of a volume, an even number.
        voxel_angstrom: Side of a voxel.
        shift_voxels: The particle lies up to this far off the centre along each axis.
        voltage_kv: Of the electrons.
        aberration_mm: Spherical aberration of the lens.
        defocus_um: Lowest and highest defocus; below 0 is under focus. A range is drawn from.
        amplitude_contrast: Share of the contrast that needs no defocus, 0.07 to 0.1 in ice.
        envelope_nyquist: Width of the Gaussian envelope of the CTF, in Nyquist frequencies.
        max_tilt_degrees: The sample is tilted from minus to plus this angle.
        tilt_images: Images of the tilt series.
        low_pass_angstrom: Finest detail that is kept, in signal and noise; None keeps all, but
            for the mode ``"aitom"``, where it means 40.
        snr: Signal-to-noise ratio; None adds no noise.
        snr_mode: Where ``snr`` is measured: ``"tilt"``, ``"white"`` or ``"aitom"``.
        neighbours: Other particles around each one.
        neighbour_gap_angstrom: The widest gap between a particle and a neighbour.

    Raises:
        InputError: If a value is out of range.
    """

    size_voxels: int = 32
    voxel_angstrom: float = 10.0
    shift_voxels: float = 2.0
    voltage_kv: float = 300.0
    aberration_mm: float = 2.7
    defocus_um: tuple[float, float] = (-5.0, -5.0)
    amplitude_contrast: float = 0.0
    envelope_nyquist: float = 0.4
    max_tilt_degrees: float = 60.0
    tilt_images: int = 41
    low_pass_angstrom: float | None = None
    snr: float | None = None
    snr_mode: str = "tilt"
    neighbours: int = 0
    neighbour_gap_angstrom: float = 20.0

    def __post_init__(self) -> None:
        if self.snr_mode not in SNR_MODES:
            raise UnknownNameError("SNR mode", self.snr_mode, SNR_MODES)
        size = self.size_voxels
        if not _is_whole(size, 8) or size % 2:
            raise InputError(f"size_voxels is {size!r}; give an even number from 8 on")
        self._check("voxel_angstrom", low=0.0, above=True)
        self._check("shift_voxels", low=0.0, high=size / 2)
        self._check("voltage_kv", low=1.0, high=3000.0)
        self._check("aberration_mm", low=0.0)
        self._check("amplitude_contrast", low=0.0, high=1.0)
        self._check("envelope_nyquist", low=0.0, above=True)
        self._check("max_tilt_degrees", low=0.0, high=90.0, above=True)
        self._check("neighbour_gap_angstrom", low=0.0)
        if self.low_pass_angstrom is not None:
            self._check("low_pass_angstrom", low=0.0, above=True)
        if self.snr is not None:
            self._check("snr", low=0.0, above=True)
        if not _is_whole(self.neighbours, 0) or self.neighbours > 100:
            raise InputError(f"neighbours is {self.neighbours!r}; give a number from 0 to 100")
        self._check_defocus()
        self._check_tilts()

    @property
    def wavelength_angstrom(self) -> float:
        """The electrons' wavelength, by the theory of relativity."""
        volts = self.voltage_kv * 1e3
        return 12.264_259 / math.sqrt(volts * (1.0 + 0.978_476e-6 * volts))

    @property
    def nyquist_per_angstrom(self) -> float:
        """The highest frequency along an axis of the volume."""
        return 0.5 / self.voxel_angstrom

    @property
    def kept_angstrom(self) -> float:
        """The finest detail that passes; 0 if all does."""
        if self.low_pass_angstrom is not None:
            return self.low_pass_angstrom
        noisy = self.snr is not None and self.snr_mode == "aitom"
        return AITOM_LOW_PASS_ANGSTROM if noisy else 0.0

    def fingerprint(self) -> str:
        """Return a text that is the same for equal settings alone."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def _check(self, name: str, *, low: float, high: float = math.inf, above: bool = False) -> None:
        value = getattr(self, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if (
            number
            and math.isfinite(value)
            and low <= value <= high
            and not (above and value == low)
        ):
            return
        least = f"above {low:g}" if above else f"from {low:g}"
        most = f" to {high:g}" if high < math.inf else " on"
        raise InputError(f"{name} is {value!r}; give a number {least}{most}")

    def _check_defocus(self) -> None:
        values = list(self.defocus_um)
        if len(values) != 2 or not -math.inf < values[0] <= values[1] < math.inf:
            raise InputError(f"defocus_um is {values!r}; give (lowest, highest), such as (-6, -2)")

    def _check_tilts(self) -> None:
        images = self.tilt_images
        if not _is_whole(images, 2):
            raise InputError(f"tilt_images is {images!r}; give a whole number from 2 on")
        step = math.radians(2.0 * self.max_tilt_degrees / (images - 1))
        # Farther apart, the corners of the spectrum would lie between two images.
        if step * self.size_voxels / math.sqrt(2.0) >= 2.0:
            raise InputError(
                f"{images} tilt images leave holes in a spectrum of {self.size_voxels} voxels; "
                f"raise tilt_images"
            )


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
