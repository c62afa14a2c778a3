"""Gates on the source tree itself."""
