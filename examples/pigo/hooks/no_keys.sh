# Keeps keys out of files: PIGO_TOOL_ARGS is the tool's input as JSON, whichever agent calls it.
if printf '%s' "$PIGO_TOOL_ARGS" | grep -qE 'AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY'; then
  echo "a key belongs into the environment or a secret store, not into a file" >&2
  exit 1
fi
