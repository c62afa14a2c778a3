"""The command line: the only place that prints, opens files and exits."""
