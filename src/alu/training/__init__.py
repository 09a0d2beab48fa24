"""Training of classifiers and purifiers: one loop, one class per objective, recipes as functions."""
