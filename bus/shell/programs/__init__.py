"""Knowledge about single programs: their output, the files that they write or run, and the syntax of other shells."""
