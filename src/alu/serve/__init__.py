"""alu serve: a defence behind HTTP, with batching, limits, metrics, an audit log and a monitor.

Only `defended` imports torch; everything else works with any `Engine`.
"""
