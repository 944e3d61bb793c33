"""Chat clients: objects with `chat(messages, …)`, as the code-first front doors take them.

`messages` has the values that go in and come out. `base` has the class to subclass and the factory.
`bridge` turns a client into a model of the engine. `sdks` has the clients of other packages, which
are imported on first use.
"""
