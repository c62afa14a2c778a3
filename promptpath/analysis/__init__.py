"""TRACE -> JUDGEMENT: pure functions from a trace to its report. No clock, no socket, no dice."""
