"""All of it in one call: the settings measured, one panel through the product, the table, the figures, the page."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.paper.data import DATA
from benchmarks.paper.experiments import EPSILONS, Effort, settings
from benchmarks.paper.figures import FIGURES, save
from benchmarks.paper.page import render_page
from benchmarks.paper.product import run_through_product
from benchmarks.paper.run import measure_all, table_of


def reproduce(effort: Effort, build: Path, docs: Path) -> Path:
    """Writes `results.csv` and `results.parquet` to `build`, `paper.md` and figures to `docs`; its path is returned."""
    rows = measure_all(settings(effort), build / "kept")
    beta = DATA["beta"]
    buckets, reports = min(beta.buckets, effort.most_buckets), effort.reports or beta.reports
    piped, agreement = run_through_product(build / "product", EPSILONS, buckets, reports, effort.pipeline)
    shutil.rmtree(build / "product")
    print(f"through the product: {agreement.collections} windows, all tallies equal", flush=True)
    table = table_of([*rows, *piped])
    table.write_csv(build / "results.csv")
    table.write_parquet(build / "results.parquet")
    for drawing in FIGURES:
        save(drawing, table, docs / "paper")
    path = docs / "paper.md"
    path.write_text(render_page(table, effort, agreement), encoding="utf-8")
    return path
