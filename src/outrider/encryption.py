"""Encrypt sensitive fields: AES-256-GCM, one random key per data subject.

A sealed value is ``v1.`` and the base64 of nonce and ciphertext. It is bound to its event and
field, so it cannot be moved to another place and still open.
"""

from __future__ import annotations

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from outrider.errors import StoreError

_VERSION = "v1."
_NONCE_BYTES = 12


class AesGcm:
    """The one cipher; a second would be ``v2.`` beside it."""

    def new_key(self) -> bytes:
        """Return a fresh random key."""
        return AESGCM.generate_key(bit_length=256)

    def seal(self, key: bytes, context: str, value: bytes) -> str:
        """Encrypt *value*, bound to *context*."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, value, context.encode())
        return _VERSION + base64.b64encode(sealed).decode()

    def open(self, key: bytes, context: str, sealed: str) -> bytes:
        """Decrypt what ``seal`` returned for the same context."""
        try:
            raw = base64.b64decode(sealed.removeprefix(_VERSION))
            return AESGCM(key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], context.encode())
        except (InvalidTag, ValueError) as error:
            raise StoreError(
                f"the sealed value of {context} does not open: it was changed, moved there from "
                "elsewhere or sealed under another key; find out who writes to the log beside "
                "Outrider"
            ) from error
