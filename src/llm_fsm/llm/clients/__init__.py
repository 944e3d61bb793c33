"""Chat clients: one object with `chat(messages, …)`, as the code-first front doors take them.

`messages` has the values that go in and come out. `base` has the class to subclass and the factory.
`bridge` makes a model of the engine out of a client. Each SDK is imported in one module, on first use.
"""
