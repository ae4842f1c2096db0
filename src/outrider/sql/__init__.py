"""Operations as statements: no I/O, no driver, no async."""
