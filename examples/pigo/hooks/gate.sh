# Stops shell commands that nobody can take back; what it prints is what the model is told.
case " $PIGO_TOOL_INPUT " in
  *" rm -rf / "* | *" rm -rf ~"* | *" mkfs"*) echo "this would delete what is not the project's" ;;
  *" git push "*"--force"*) echo "history on the server is not rewritten; push without --force" ;;
  *) exit 0 ;;
esac
exit 1
