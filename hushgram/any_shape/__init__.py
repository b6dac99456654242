"""Intervals that hold for every distribution, whatever its shape.

Let M be the transition from values to cells, f the shares of the cells, and hᵀx what is asked for. Weights w of cells
with Mᵀw ≤ h have E[wᵀf] = wᵀMx ≤ hᵀx for every x ≥ 0: nothing is assumed of the shape, and wᵀf, less its own noise, is
a lower bound. Weights with Mᵀw ≥ h give the upper one. Which weights are narrow depends on x: a thinned part of the
reports, the pilot, chooses them, and only the others are weighed, so that the choice cannot harm.

Strict bounds of this kind are known from unfolding in particle physics (Stanley, Patil and Kuusela, arXiv 2111.01091).
"""
