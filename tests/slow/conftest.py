"""The order of the slow tests: by far the longest first, so that no core waits for it at the end."""

from __future__ import annotations

import pytest

LONGEST = "[cifar10-at]"  # AutoAttack on a network that withstands it


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stable but for the longest."""
    items.sort(key=lambda item: not item.nodeid.endswith(LONGEST))
