"""Where tokens come from. torch is imported in this package only, and never by `paced`."""
