"""Writes the table of needles of the guard packs (`bus/matching/needles.py`): `python -m bus.hooksets.guards.needle_table`."""

from __future__ import annotations

import msgspec

from bus.hooksets.guards import load_pack, packs
from bus.hooksets.sieve.sieve import asked_patterns
from bus.matching.needles import TABLE, computed_needles, packed, table_key


def table() -> dict[str, bytes]:
    """The entries for the packs as they are."""
    rules = [hook.rule for name in packs() for hook in load_pack(name).rules if hook.rule is not None]
    return {
        table_key(pattern, known): msgspec.json.encode(packed(computed_needles(pattern, known)))
        for pattern, known in asked_patterns(rules)
    }


def written(entries: dict[str, bytes]) -> bytes:
    """The table as its file has it: an entry a line, in the order of their keys."""
    return b"{\n" + b",\n".join(b'"%b":%b' % (key.encode(), entries[key]) for key in sorted(entries)) + b"\n}\n"


if __name__ == "__main__":
    TABLE.write_bytes(written(table()))
