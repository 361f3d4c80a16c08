#!/bin/sh
# Saves where the work stands before the context is compacted; the next session starts with it.
set -eu
store="${CLAUDE_PROJECT_DIR:-$ION_CWD}/.ion/memory"
mkdir -p "$store"
changes=0
[ -f "$store/changes.jsonl" ] && changes=$(wc -l <"$store/changes.jsonl")
{
    echo "Before the context was compacted (session $ION_SESSION_ID): $((changes)) changes in all."
    branch=$(git -C "$ION_CWD" branch --show-current 2>/dev/null) && [ -n "$branch" ] && echo "Branch: $branch"
} >"$store/state.md.new" || true
mv "$store/state.md.new" "$store/state.md"
