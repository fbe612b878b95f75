"""The web process: the door for SNS over HTTP, and its health.

Each part brings its routes; `app` lists the parts.
"""
