"""Providers: each hands one call over to a foreign service and says what that came to.

How to add a provider:

1. Write a settings module for its URL scheme with `problems(url) -> list[str]` (each a sentence
   that names the parameter and the mend, never a credential) and
   `build(url, *, connections, local_hostname, sender) -> Provider`. It imports no SDK when
   imported, and takes the parameter `rate` (`providers.parameters`) like every scheme.
2. Name the module in `providers.catalog`. Nothing else imports a provider.
3. Let the driver only observe: stage, reply or exception, and whether the commit point was passed.
4. Judge in an ordered table of rows (stages, test, outcome, scope, rule id, why). The last row maps
   what nothing else matched to ambiguous after the commit point and to retryable before it; no row
   maps something unknown to accepted or permanent.
5. On an outcome of account scope say what it is about (`blame`: the provider, or the sender) and
   whether it means "too much" (`pressure`): a circuit and the shared rate go by that.
6. Ask `call.may_commit()` right before the step that cannot be undone, and record the commit point
   before taking it. Switch every retry of the SDK off: one call, one request.
7. `send` never raises; a cancelled call becomes a result too, with nothing left in any buffer that
   could still be sent. Return one verdict for each recipient, texts passed through
   `mailer.outcome.clean`.
8. Bound every wait and every pool; `close` may be called twice. `limits` and `check` send nothing,
   and what `limits` cannot tell is None.
9. Add the adapter to `tests/providers/test_contract.py`, hit every row of its table with a case,
   and fault it on a real wire: reply, end, reset, stall at every stage.
"""
