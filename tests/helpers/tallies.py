"""Distributions over buckets, and tallies of reports that come from them."""

import numpy as np
from scipy import stats


def shares_of(cdf, buckets):
    shares = np.diff(cdf(np.linspace(0, 1, buckets + 1)))
    return shares / shares.sum()


def beta(buckets):
    return shares_of(stats.beta(5, 2).cdf, buckets)


def spiked(buckets, *places):
    """A Beta distribution with a fifth of the mass in each of some buckets."""
    x = (1 - 0.2 * len(places)) * beta(buckets)
    x[[int(place * buckets) for place in places]] += 0.2
    return x


def jumping(buckets, ratio):
    """Two levels, the first `ratio` times as high as the second."""
    x = np.where(np.arange(buckets) < buckets // 2, ratio, 1.0)
    return x / x.sum()


def stairs(buckets):
    heights = np.array([2, 1, 6, 0.3, 3, 1, 0.1, 1.5])
    return np.repeat(heights / heights.sum(), buckets // 8) / (buckets // 8)


def five_peaks(buckets):
    places = np.array([0.15, 0.32, 0.5, 0.66, 0.85])
    return shares_of(lambda u: stats.norm.cdf((np.asarray(u)[:, None] - places) / 0.015).mean(axis=1), buckets)


def tally_of(mechanism, x, reports, seed):
    cells = mechanism.forward(x)
    return np.random.default_rng(seed).multinomial(reports, cells / cells.sum()).astype(np.float64)


def w1(x, y):
    return float(np.abs(np.cumsum(x - y)).mean())
