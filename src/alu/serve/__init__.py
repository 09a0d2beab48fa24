"""alu serve: a defence behind HTTP, with batching, limits, metrics, an audit log, a monitor and a page.

Only `defended` and `playground` import torch; everything else works with any `Engine`.
"""
