"""`python -m workers …` is `fleethook …`: from a checkout, and wherever the script is not on PATH."""

from workers.cli import main

main()
