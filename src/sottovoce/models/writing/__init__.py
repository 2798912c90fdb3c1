"""Writers of whole texts: a request as a prompt, and models in this process, one request at a time."""
