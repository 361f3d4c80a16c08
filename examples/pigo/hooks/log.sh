# One line for each event, in ~/.pigo/events.log.
case "$PIGO_EVENT" in
  tool_end) line="$PIGO_TOOL_NAME failed=$PIGO_TOOL_ERROR output=$(printf '%s' "$PIGO_TOOL_OUTPUT" | wc -c | tr -d ' ')" ;;
  agent_start) line="asked: $PIGO_USER_MESSAGE" ;;
  agent_end) line="said: $PIGO_ASSISTANT_MESSAGE" ;;
esac
printf '%s %s\n' "$PIGO_EVENT" "$line" | tr '\n' ' ' | sed 's/ *$/\n/' >> ~/.pigo/events.log
