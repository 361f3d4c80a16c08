#!/usr/bin/env python3
"""A dispatcher with http.client: 127.0.0.1, a chunked body, headers in small letters."""

import http.client
import json
import os
import re
import sys
from pathlib import Path


def port() -> int:
    for name in ("bootstrap.yaml", "config.yaml"):
        path = Path(os.environ["HOME"], ".gobby", name)
        if path.exists() and (found := re.search(r"^daemon_port:\s*(\d+)", path.read_text(), re.M)):
            return int(found[1])
    return 60887


def main() -> int:
    hook_type = next(word.partition("=")[2] for word in sys.argv if word.startswith("--type="))
    payload = json.load(sys.stdin)
    connection = http.client.HTTPConnection("127.0.0.1", port(), timeout=30)
    body = json.dumps({"source": "claude", "input_data": payload, "hook_type": hook_type}).encode()
    pieces = (body[at : at + 7] for at in range(0, len(body), 7))
    connection.request(
        "POST", "/hooks/execute", body=pieces, headers={"content-type": "application/json", "user-agent": "mine/1"},
        encode_chunked=True,
    )
    answer = connection.getresponse()
    told = json.loads(answer.read())
    if answer.status != 200:
        print(json.dumps({"status": "error", "message": told}))
        return 1
    if told.get("continue") is False:
        print(told.get("stopReason", "refused"), file=sys.stderr)
        return 2
    print(json.dumps(told))
    return 0


sys.exit(main())
