"""EM and EMS against a plain dense loop, and the laws that any right implementation obeys."""

import numpy as np
import pytest

from hushgram import Collection
from hushgram.estimators.em import Part, maximize, smooth
from hushgram.mechanisms import ContinuousSquareWave, GeneralWave, SquareWave


def run_dense_loop(matrices, histograms, smoothing, tolerance, iterations=10_000):
    """The paper's algorithm 1 as it stands there, jointly over several mechanisms, with the likelihood it reached."""
    d = matrices[0].shape[1]
    S = np.zeros((d, d))
    for i in range(d):
        for j, weight in ((i - 1, 0.25), (i, 0.5), (i + 1, 0.25)):
            S[i, min(max(j, 0), d - 1)] += weight  # the edges reflect
    x, before, path = np.full(d, 1 / d), None, []
    for iteration in range(iterations + 1):
        likelihood = sum(n @ np.log(M @ x) for M, n in zip(matrices, histograms, strict=True))
        path.append(likelihood)
        if before is not None and abs(likelihood - before) < tolerance:
            return x, iteration, path
        P = x * sum(M.T @ (n / (M @ x)) for M, n in zip(matrices, histograms, strict=True))
        x, before = P / P.sum(), likelihood
        if smoothing:
            x = S @ x
    return x, iterations, path


def _simulate_histogram(mechanism, reports, seed):
    rng = np.random.default_rng(seed)
    return mechanism.tally(mechanism.perturb_many(mechanism.locate(rng.beta(5, 2, reports)), rng)).astype(float)


WIDTHS = (0.5, 0.75, 1.0, 1.25)
MECHANISMS = [
    SquareWave(64, 1.0),
    SquareWave(32, 2.0, widths=WIDTHS),
    ContinuousSquareWave(64, 2.0),
    GeneralWave(48, 1.0, 0.4, output_buckets=70),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize(("smoothing", "tolerance"), [(1.0, 1e-3), (0.0, 1e-3 * np.e)])
def test_the_paper_mode_is_the_dense_loop(mechanism, smoothing, tolerance):
    n = _simulate_histogram(mechanism, 20_000, seed=1)
    expected, iterations, _ = run_dense_loop([mechanism.matrix()], [n], smoothing, tolerance)
    solution = maximize([Part(mechanism, n[None, :])], smoothing=smoothing, tolerance=tolerance)
    assert solution.iterations[0] == iterations
    assert solution.converged[0]
    np.testing.assert_allclose(solution.x[0], expected, atol=1e-12)


def test_several_mechanisms_share_one_likelihood():
    old, new = SquareWave(64, 2.0), ContinuousSquareWave(64, 0.8)
    histograms = [_simulate_histogram(old, 5_000, 1), _simulate_histogram(new, 20_000, 2)]
    expected, iterations, _ = run_dense_loop([old.matrix(), new.matrix()], histograms, True, 1e-3)
    solution = maximize([Part(old, histograms[0][None, :]), Part(new, histograms[1][None, :])], smoothing=1.0)
    assert solution.iterations[0] == iterations
    np.testing.assert_allclose(solution.x[0], expected, atol=1e-12)


def test_splitting_one_mechanisms_reports_in_two_parts_changes_nothing():
    wave = SquareWave(64, 1.0)
    first, second = _simulate_histogram(wave, 3_000, 1)[None, :], _simulate_histogram(wave, 9_000, 2)[None, :]
    whole = maximize([Part(wave, first + second)], smoothing=1.0)
    split = maximize([Part(wave, first), Part(wave, second)], smoothing=1.0)
    np.testing.assert_allclose(split.x, whole.x, atol=1e-12)


def test_the_likelihood_of_em_never_falls():
    wave = SquareWave(64, 1.0)
    n = _simulate_histogram(wave, 2_000, seed=4)[None, :]
    x, likelihood = np.full((1, 64), 1 / 64), -np.inf
    for _ in range(300):
        new_likelihood = float((n * np.log(wave.forward(x))).sum())
        assert new_likelihood >= likelihood - 1e-9
        likelihood = new_likelihood
        x = maximize([Part(wave, n)], smoothing=0.0, tolerance=0.0, max_iterations=1, start=x).x


@pytest.mark.parametrize("stopping", ["paper", "converged"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("wave", [SquareWave(128, 1.0), ContinuousSquareWave(128, 1.0)], ids=["discrete", "continuous"])
def test_a_window_in_a_batch_equals_a_single_run(wave, stopping, smoothing):
    # 70 windows make three blocks; their sizes differ a hundredfold, so that they stop at different times.
    n = np.stack([_simulate_histogram(wave, int(200 * 1.07**k), seed=k) for k in range(70)])
    options = {"smoothing": smoothing, "stopping": stopping, "max_iterations": 600}
    batch = maximize([Part(wave, n)], **options)
    assert len(set(batch.iterations.tolist())) > 5 or smoothing == 0.0
    for row in range(0, 70, 3):
        single = maximize([Part(wave, n[[row]])], **options)
        np.testing.assert_allclose(batch.x[row], single.x[0], rtol=0, atol=1e-9)
        assert batch.iterations[row] == single.iterations[0]
        assert batch.converged[row] == single.converged[0]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_converged_is_the_fixed_point_of_the_same_map(mechanism):
    n = _simulate_histogram(mechanism, 50_000, seed=2)
    fixed, _, _ = run_dense_loop([mechanism.matrix()], [n], True, 0.0, iterations=20_000)
    fast = maximize([Part(mechanism, n[None, :])], smoothing=1.0, stopping="converged")
    paper = maximize([Part(mechanism, n[None, :])], smoothing=1.0)
    assert fast.converged[0]
    distances = {name: np.abs(np.cumsum(s.x[0] - fixed)).max() for name, s in (("fast", fast), ("paper", paper))}
    assert distances["fast"] < 1e-5
    assert distances["fast"] < distances["paper"]
    assert fast.iterations[0] < paper.iterations[0]


def test_an_estimate_reports_the_iteration_limit():
    wave = SquareWave(64, 1.0)
    n = _simulate_histogram(wave, 1000, seed=1)[None, :]
    for stopping in ("paper", "converged"):
        solution = maximize([Part(wave, n)], smoothing=1.0, stopping=stopping, max_iterations=7)
        assert not solution.converged[0]
        assert solution.iterations[0] <= 7
        assert solution.x.sum() == pytest.approx(1)


@pytest.mark.parametrize("size", [2, 3, 50])
def test_smoothing_keeps_the_sum_and_reflects_at_the_edges(size):
    x = np.random.default_rng(1).random((3, size))
    smoothed = smooth(x.copy(), 1.0)
    padded = np.concatenate([x[:, :1], x, x[:, -1:]], axis=1)
    np.testing.assert_allclose(smoothed, (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4)
    np.testing.assert_allclose(smoothed.sum(axis=1), x.sum(axis=1))


@pytest.mark.parametrize("strength", [0.03, 0.5, 1.0, 2.0, 5.0, 9.0, 21.0, 85.0])
def test_strength_is_the_variance_added_in_units_of_one_pass(strength):
    matrix = smooth(np.eye(200), strength)
    np.testing.assert_allclose(matrix.sum(axis=0), 1)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(matrix, matrix[::-1, ::-1])
    assert matrix.min() >= 0
    assert matrix[100] @ (np.arange(200) - 100.0) ** 2 == pytest.approx(strength / 2)


def test_whole_passes_of_smoothing_make_a_triangle():
    np.testing.assert_allclose(smooth(np.eye(20), 5.0)[10, 7:14], np.array([1, 2, 3, 4, 3, 2, 1]) / 16)
    np.testing.assert_allclose(smooth(np.eye(3), 1365.0), smooth(np.eye(3), 5.0))  # no two buckets are that far apart


def test_a_collection_solves_mixed_revisions_together_and_apart():
    c = Collection(name="c", low=0, high=1, buckets=64, epsilon=1.0, previous=[{"epsilon": 2.0}])
    old = list(c.revisions)[1]
    values = np.random.default_rng(1).beta(5, 2, 30_000)
    new_tally = c.tally(c.simulate(values, seed=1))
    old_tally = c.revisions[old].tally(c.revisions[old].simulate(values, seed=2))
    mixed, only_new, only_old, nothing = c.estimate_many(
        [{c.revision: new_tally, old: old_tally}, new_tally, {old: old_tally}, {c.revision: 0 * new_tally}]
    )
    waves = [c.mechanism, c.revisions[old].mechanism]
    tallies = [new_tally.astype(float), old_tally.astype(float)]
    expected, *_ = run_dense_loop([wave.matrix() for wave in waves], tallies, True, 1e-3)
    np.testing.assert_allclose(mixed.probabilities, expected, atol=1e-12)
    assert mixed.reports == 60_000
    np.testing.assert_array_equal(only_new.probabilities, c.estimate(new_tally).probabilities)
    np.testing.assert_allclose(only_old.probabilities, run_dense_loop([waves[1].matrix()], tallies[1:], True, 1e-3)[0])
    assert nothing.status == "no_reports"
    assert mixed.interval("mean")[1] - mixed.interval("mean")[0] < (
        only_new.interval("mean")[1] - only_new.interval("mean")[0]
    )


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_a_wave_of_several_widths_is_estimated_as_their_reports_together(smoothing):
    wave = SquareWave(64, 1.0, widths=WIDTHS)
    counts = _simulate_histogram(wave, 20_000, 5)
    ends = np.cumsum([band.cells for band in wave.bands])
    parts = [Part(band, part[None]) for band, part in zip(wave.bands, np.split(counts, ends[:-1]), strict=True)]
    options = {"smoothing": smoothing, "max_iterations": 200}
    together, apart = maximize([Part(wave, counts[None])], **options).x, maximize(parts, **options).x
    np.testing.assert_allclose(together, apart, rtol=1e-9)
