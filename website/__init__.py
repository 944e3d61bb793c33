"""The site of the documents: `python -m website` builds it from `docs/` into `build/site`.

`prepare.py` copies `docs/` into `build/docs`, fills in what is generated, and turns links to other
files of the repository into copies. zensical builds the site from there by `zensical.toml`, and
refuses broken links.
"""
