"""Values as content-addressed trees: canonical bytes, nodes, maps, sequences, blobs, and cells."""
