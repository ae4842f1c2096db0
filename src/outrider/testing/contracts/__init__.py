"""Contracts: what an adapter promises, as suites that its author derives a test class from."""

import pytest

# A failing assertion of a shipped suite shows its values like one of the application's own.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("connections", "emitting", "guarded", "values"))
)
