"""The command line: ``outrider``."""
