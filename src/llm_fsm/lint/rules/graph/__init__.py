"""Rules about states and the ways between them."""
