"""Values of entries as they are sent to the service.

If a client could send a value that the service refuses, the fallback would decide, and the client would
escape its limit. `vectors/keys.json` states for every language how values are changed.
"""

from __future__ import annotations

import hashlib
import re

MAX_BYTES = 256
_KEPT_BYTES = 200
_HASH_DIGITS = 32

_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSED = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


def sanitize_value(text: str) -> str:
    """Returns a value that the service accepts, from any text; different texts have different values."""
    if _SURROGATE.search(text):
        # Two halves that belong together are one character; a single half becomes U+FFFD.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _REFUSED.sub(lambda found: f"%{ord(found[0]):02X}", text)
    content = text.encode()
    if len(content) <= MAX_BYTES:
        return text
    kept = content[:_KEPT_BYTES].decode(errors="ignore")  # without a part of a character at its end
    return f"{kept}~{hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}"
