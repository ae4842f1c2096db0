"""Reading the log."""
