"""Workers: where pieces of work run, in this process or in others, of this machine or of a Ray cluster."""

from __future__ import annotations

from alu.workers.on_ray import Workers
from alu.workers.pool import Desk, Kept, Pool, ThisProcess, pool_of

__all__ = ["Desk", "Kept", "Pool", "ThisProcess", "Workers", "pool_of"]
