"""The pages of docs/ that are generated from the types, tables and commands of Fleethook. `make docs` writes them."""
