"""Results of hook tests as JUnit XML for CI systems; secrets are redacted."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.secrets.redaction import redact_text
from workers.admin.hook_test_runs import HookTestResult

_NOT_XML: Final = lazy_regex(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold, escaped or not."""


def junit_xml(file: str, results: Sequence[HookTestResult]) -> bytes:
    """The report: one suite, which is the hook file, and one case for each test, with its line."""
    failed = sum(not result.passed for result in results)
    seconds = sum(result.seconds for result in results)
    counts = {"tests": str(len(results)), "failures": str(failed), "errors": "0", "time": f"{seconds:.3f}"}
    top = ET.Element("testsuites", {"name": "fleethook", **counts})
    suite = ET.SubElement(top, "testsuite", {"name": _clean(file), "skipped": "0", **counts})
    for result in results:
        where = {"classname": _clean(file), "file": _clean(file), "line": str(result.test.line)}
        case = ET.SubElement(
            suite, "testcase", {"name": _clean(result.test.name), "time": f"{result.seconds:.3f}", **where}
        )
        if not result.passed:
            text = "\n".join((*result.failures, f"{result.test.file}:{result.test.line}"))
            about = {"type": "failure", "message": _clean(result.failures[0])}
            ET.SubElement(case, "failure", about).text = _clean(text)
    ET.indent(top)
    xml: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", redact_text(text))
