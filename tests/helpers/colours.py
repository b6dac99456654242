"""Colours as people see them: contrast, and the difference of two for those who do not see all of them."""

from __future__ import annotations

import numpy as np

from hushgram._arrays import FloatArray

# Machado, Oliveira and Fernandes (2009), at full severity, for linear RGB.
SIGHTS = {
    "all colours": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# From linear RGB to XYZ with white at (1, 1, 1), and how much each of red, green and blue is light.
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)


def parse_colour(css: str) -> FloatArray:
    """A computed colour of a browser, such as rgb(28, 33, 38), as linear RGB."""
    parts = css[css.index("(") + 1 : css.index(")")].replace(",", " ").split()
    assert len(parts) == 3, f"{css} is not an opaque colour"
    share = np.array([float(part) for part in parts]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def compute_contrast(one: str, other: str) -> float:
    """As WCAG defines it: from 1 to 21."""
    dark, light = sorted(float(TO_XYZ[1] @ parse_colour(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def compute_difference(one: str, other: str, sight: str) -> float:
    """The distance in CIELAB; 2 can just be distinguished side by side, 100 is from black to white."""
    return float(np.linalg.norm(_lab(one, sight) - _lab(other, sight)))


def _lab(css: str, sight: str) -> FloatArray:
    xyz = TO_XYZ @ np.clip(SIGHTS[sight] @ parse_colour(css), 0, 1) / WHITE
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])
