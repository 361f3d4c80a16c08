# Blocks shell commands that cannot be undone; the model reads what it prints.
case " $PIGO_TOOL_INPUT " in
  *" rm -rf / "* | *" rm -rf ~"* | *" mkfs"*) echo "this would delete what is not the project's" ;;
  *" git push "*"--force"*) echo "history on the server is not rewritten; push without --force" ;;
  *) exit 0 ;;
esac
exit 1
