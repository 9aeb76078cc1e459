"""The EVs of a QP by plane and stretch, as the kernel keeps them, and the rules that must always hold."""

from dataclasses import dataclass

from mrc_agents.abi import EvState, Qp


@dataclass(frozen=True, slots=True)
class PlanePartition:
    """The EVs of one plane, by index in the QP."""

    active: frozenset[int]
    backup: frozenset[int]
    bad: frozenset[int]


def ev_partition(qp: Qp) -> tuple[PlanePartition, ...]:
    """The partition of each plane; fails if what the QP says of its EVs is not consistent."""
    planes = []
    for plane in range(qp.evs.plane_count):
        first = plane * qp.evs.per_plane
        order = list(qp.evs.order[first : first + qp.evs.per_plane])
        assert sorted(order) == list(range(first, first + qp.evs.per_plane))
        assert [qp.evs.ev[ev].position for ev in order] == list(range(qp.evs.per_plane))
        assert {qp.evs.ev[ev].plane for ev in order} == {plane}
        border = qp.evs.planes[plane].active_count
        end = border + qp.evs.planes[plane].backup_count
        assert end <= qp.evs.per_plane
        assert all(qp.evs.ev[ev].state in {EvState.GOOD, EvState.SKIP} for ev in order[:end])
        assert all(qp.evs.ev[ev].state in {EvState.ASSUMED_BAD, EvState.DENIED} for ev in order[end:])
        planes.append(
            PlanePartition(frozenset(order[:border]), frozenset(order[border:end]), frozenset(order[end:]))
        )
    assert qp.evs.active_total == sum(len(part.active) for part in planes)
    assert qp.evs.active_planes == sum(1 << plane for plane, part in enumerate(planes) if part.active)
    assert qp.req.inflight == sum(ev.outstanding for ev in qp.evs.ev)
    return tuple(planes)
