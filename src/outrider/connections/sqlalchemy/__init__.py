"""SQLAlchemy 2: connections and sessions. Only ``aio`` needs its asyncio extension."""
