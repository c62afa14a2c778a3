"""The lab: real products before the reference server, in good and bad configurations; what they do
to a stream, and whether the tool says so."""
