"""Experiments: one file each, from models and images to a result that pages are made of."""
