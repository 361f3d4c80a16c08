"""`python -m workers.cli …` is `fleethook …`: how `up` starts its processes."""

from workers.cli import main

main()
