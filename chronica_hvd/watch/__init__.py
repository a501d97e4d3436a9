"""What a person sees of a run: trace file, table, picture, progress line."""
