"""Rules about states and the paths between them."""
