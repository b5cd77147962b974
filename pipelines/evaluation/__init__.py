"""The benchmark: run a solver, score it, compare it. Scoring never calls a model."""
