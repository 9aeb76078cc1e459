"""Scenario files for tests, as text."""

HEAD = "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: trial, description: A trial.}\nspec:\n"

FLAP = (
    HEAD
    + """\
  seed: 42
  topology: {port_rate: 5Mbit}
  transport: {evs: 32}
  workloads:
    - {name: main, kind: sendrecv, shift: 4, size: 1MiB, warmup: 500ms, duration: 4s}
  faults:
    - {id: flap1, at: 1s, for: 2s, kind: link-flap, every: 500ms, down: 200ms, jitter: 20%,
       select: {links: {plane: 0, between: [t0, t1]}, pick: random, count: 2}}
  expect:
    - goodput(main) during flap1 >= 75% of goodput(main) before flap1
    - detect(flap1) < 100ms
    - wrong_bytes == 0
    - qp_errors == 0
"""
)


def scenario(spec: str) -> str:
    """A scenario with the default fabric, one second of traffic and *spec* (lines of the spec) besides."""
    return (
        HEAD + "  workloads:\n    - {name: main, kind: sendrecv, shift: 4, size: 1MiB, duration: 1s}\n" + spec
    )
