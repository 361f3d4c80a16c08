"""A hook of Forge: refuses to write a .json file that is not JSON, and ends every other one with a line break.

Reads the event on stdin; a non-zero exit blocks, JSON on stdout is the changed input.
"""

import json
import sys

event = json.load(sys.stdin)
args = event["data"]["tool_args"]
if str(args.get("path", "")).endswith(".json"):
    try:
        json.loads(args["content"])
    except ValueError as error:
        sys.exit(f"{args['path']} would not be JSON: {error}")
    if not args["content"].endswith("\n"):
        sys.stdout.write(json.dumps({"tool_args": {"content": args["content"] + "\n"}}))
