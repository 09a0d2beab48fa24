"""coins: a whole experiment in one small file. Registering it is one word in alu.paper.MODULES."""

from __future__ import annotations

from alu.paper import store
from alu.paper.base import Cell, Experiment, Sizes, Workbench
from alu.paper.claims import Verdict, at_most, claim, every
from alu.paper.store import Measured, Results, ones
from alu.paper.views import Panel, Table, percent


class Key(store.Key, experiment="coins"):
    """A coin."""

    coin: str


def cells(sizes: Sizes) -> list[Cell[Key]]:
    return [Cell(Key("fair")), Cell(Key("bent"))]


def measure(bench: Workbench, key: Key) -> Measured:
    from alu.rng import generator

    heads = 50 if key.coin == "fair" else 20
    draws = [int(generator(bench.seed, key.coin, i).initial_seed()) % 100 for i in range(bench.sizes["n"])]
    return {"n": len(draws), "heads": "".join(str(int(draw < heads)) for draw in draws)}


def view(results: Results) -> list[Panel]:
    measured = {coin: results.get(Key(coin)) or {"heads": ""} for coin in ("fair", "bent")}
    rows = [[coin, percent(cell["heads"])] for coin, cell in measured.items()]
    return [Table("Heads, percent", ["coin", "heads"], rows)]


@claim("a bent coin is bent", "It falls on heads less often.")
def bent(results: Results) -> Verdict:
    heads = ones(results.need(Key("bent"))["heads"])
    return Verdict(every([at_most(heads, 0.4)]), [f"bent: {percent(heads)} heads"], "To hold: at most 40 % heads.")


EXPERIMENT = Experiment(
    Key, cells, measure, view, title="Coins", question="Is the bent coin bent?", sizes={"n": (200, 20)},
    differs="Not in the paper.", why="It is a toy.", claims=(bent,),
)  # fmt: skip
