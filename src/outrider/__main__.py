"""``python -m outrider``."""

from __future__ import annotations

from outrider.cli.main import main

if __name__ == "__main__":
    main()
