"""The studio: an editor of definition files in the browser, with a playground for them.

Requests of one page on this machine enter; texts, findings, pictures and turns leave. Open `app.py`
first: it makes the application. `models.py` is the contract with the page, `folder.py` reads and
writes files, `patch.py` changes texts, and `talks.py` holds the conversations of the playground.
"""
