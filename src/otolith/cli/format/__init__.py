"""What a person sees: tables, graphs, values and words, in colour where there is a terminal."""
