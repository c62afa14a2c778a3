"""FRAMES <-> MEANING: one file for each family of APIs; pure, no clock, no sockets."""
