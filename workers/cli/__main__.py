"""`python -m workers.cli …` does what `fleethook …` does; `up` starts its processes so."""

from workers.cli import main

main()
