"""Facts of a document that several rules need: paths, keys, texts and schemas, each computed once."""
