"""Values of entries as they go to the service.

A value that the service refused would leave the request to the fallback, and so let whoever wrote it out of
the limit. `vectors/keys.json` holds every language to the same spelling.
"""

from __future__ import annotations

import hashlib
import re

MOST_BYTES = 256
_KEPT_BYTES = 200
_HASH_DIGITS = 32

_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSED = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


def sendable(text: str) -> str:
    """A text that a client may have written, as the service takes it; texts that differ stay different."""
    if _SURROGATE.search(text):
        # Two halves that belong together are one character; others are none.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _REFUSED.sub(lambda found: f"%{ord(found[0]):02X}", text)
    content = text.encode()
    if len(content) <= MOST_BYTES:
        return text
    kept = content[:_KEPT_BYTES].decode(errors="ignore")  # without half a character at its end
    return f"{kept}~{hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}"
