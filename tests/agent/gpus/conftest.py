"""What all tests of this folder share."""

from tests.support.checked_ledger import checked_ledger

__all__ = ["checked_ledger"]
