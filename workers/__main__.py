"""`python -m workers …` does what `fleethook …` does, for a checkout or a PATH without the script."""

from workers.cli import main

main()
