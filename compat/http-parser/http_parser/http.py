"""HttpParser with the methods pymesos 0.3.15 calls, over httptools (llhttp).

The real http-parser 0.9.0 ships C made by an old Cython that does not compile on Python >= 3.11.
Only responses are parsed, because pymesos parses nothing else. There is on purpose no `errno`
attribute: pymesos takes its presence as the sign of another parser with other rules.
"""

import httptools

HPE_OK = 0
HPE_UNKNOWN = 31


class HttpParser:
    """A parser of one HTTP response: bytes in through `execute`, head and body out."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._error = HPE_OK
        self._headers_complete = False
        self._message_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header from llhttp; a repeated one is joined with a comma (RFC 9110, 5.3)."""
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found = next((known for known in self._headers if known.lower() == key.lower()), None)
        if found is None:
            self._headers[key] = text
        else:
            self._headers[found] += f", {text}"

    def on_headers_complete(self) -> None:
        """Note the blank line that ends the head."""
        self._headers_complete = True

    def on_body(self, data: bytes) -> None:
        """Take decoded body bytes, as soon as they are there."""
        self._body += data

    def on_message_complete(self) -> None:
        """Note the last chunk, or the last byte of the announced length."""
        self._message_complete = True

    def execute(self, data: bytes, length: int) -> int:
        """Feed the first `length` bytes of `data`; return how many were consumed: all, or 0 on malformed input."""
        if self._error != HPE_OK:
            return 0
        try:
            self._parser.feed_data(bytes(data[:length]))
        except httptools.HttpParserError:
            self._error = HPE_UNKNOWN
            return 0
        return length

    def get_errno(self) -> int:
        """Return 0, or 31 (unknown error) after malformed input."""
        return self._error

    def get_status_code(self) -> int:
        """Return the status; valid once the headers are complete."""
        return int(self._parser.get_status_code())

    def get_headers(self) -> dict[str, str]:
        """Return the headers, named as they came."""
        return self._headers

    def is_headers_complete(self) -> bool:
        """Tell whether the blank line has been read."""
        return self._headers_complete

    def is_chunked(self) -> bool:
        """Tell whether the body comes in chunks."""
        return any(k.lower() == "transfer-encoding" and v.lower() == "chunked" for k, v in self._headers.items())

    def is_partial_body(self) -> bool:
        """Tell whether body bytes wait for `recv_body`."""
        return bool(self._body)

    def recv_body(self) -> bytes:
        """Return the waiting body bytes and forget them."""
        body = bytes(self._body)
        self._body.clear()
        return body

    def is_message_complete(self) -> bool:
        """Tell whether the response has ended."""
        return self._message_complete
