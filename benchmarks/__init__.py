"""What every claimed number is measured with.

Each module is run by name (`python -m benchmarks.accuracy`), prints a table with its bars and
writes all of its runs, the machine and its load to benchmarks/results/<name>.json. `make bench`
runs them all.
"""
