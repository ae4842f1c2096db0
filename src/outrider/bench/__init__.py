"""The measurements behind ``outrider bench``: each with its yardstick in the same run."""
