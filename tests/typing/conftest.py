# These modules are read by type checkers; importing one would declare its events for all tests.
collect_ignore_glob = ["*.py"]
