"""Reading a page back: its figures, the points of its charts, and whatever else it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br"}


@dataclass
class Page(HTMLParser):
    """What a page shows; `loose` is the text of number cells and findings outside of any figure."""

    figures: dict[str, tuple[float, str]] = field(default_factory=dict)
    points: dict[str, tuple[float, float]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    counts: list[list[int]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    loose: list[str] = field(default_factory=list)
    text: str = ""
    stack: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places += [given[name] for name in ("src", "href") if name in given]
        if "id" in given:
            assert given["id"] not in self.anchors, given["id"]
            self.anchors.add(given["id"])
        if "data-counts" in given:
            self.counts.append([int(count) for count in given["data-counts"].split()])
        if tag == "circle" and "data-key" in given:
            assert given["data-key"] not in self.points, given["data-key"]
            self.points[given["data-key"]] = (float(given["data-x"]), float(given["data-value"]))
        if "data-diagnostic" in given:
            self.verdicts[given["data-diagnostic"]] = given["data-verdict"]
        if tag not in VOID:
            self.stack.append((tag, given))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack[-1][0] == tag, (tag, self.stack[-1])
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if any(tag in ("style", "script", "svg") for tag, _ in self.stack):
            return
        self.text += data
        given = self.stack[-1][1] if self.stack else {}
        if "data-fact" in given:
            self.facts[given["data-fact"]] = data
        elif given.get("class") == "figure":
            assert given["data-key"] not in self.figures, given["data-key"]
            self.figures[given["data-key"]] = (float(given["data-value"]), data)
        elif any(tag == "li" or given.get("class") == "number" for tag, given in self.stack):
            self.loose.append(data)


def read(text: str) -> Page:
    """A page, whose every tag must be closed in order."""
    page = Page()
    page.feed(text)
    page.close()
    assert page.stack == []
    return page
