"""The toys, under the name that some tests still import."""

from tests.toys import *  # noqa: F403
