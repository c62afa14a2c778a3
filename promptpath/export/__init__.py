"""TRACE + REPORT -> TEXT OR BYTES. Pure: who calls it writes the result somewhere."""
