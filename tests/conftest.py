pytest_plugins = [
    "tests.fixtures.report",
    "tests.fixtures.postgres",
    "tests.fixtures.sqlite",
    "tests.fixtures.databases",
    "tests.fixtures.connections",
]
