"""Verbs of a NIC as methods. Generated: see tests/verbs_reference.py."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from mrc_agents.errors import AgentError


class VerbMethods(ABC):
    """Each may raise AgentError (nobody answers) or UsageError (the agent refused; it names the argument)."""

    @abstractmethod
    def call(self, verb: str, **arguments: Any) -> Any:
        """The result of any verb."""

    def ask(self, kind: type, verb: str, **arguments: Any) -> Any:
        """The result of a verb; AgentError unless it is a *kind*: an agent in a container is not trusted."""
        result = self.call(verb, **arguments)
        if not isinstance(result, kind):
            raise AgentError(f"a NIC agent answers {verb!r} with what is no {kind.__name__}")
        return result

    def hello(self) -> dict[str, Any]:
        """The agent's host."""
        result: dict[str, Any] = self.ask(dict, "hello")
        return result

    def counters(self) -> dict[str, int]:
        """Counters since the NIC was loaded."""
        result: dict[str, int] = self.ask(dict, "counters")
        return result

    def port_status(self) -> list[bool]:
        """Carrier of each port, by plane."""
        result: list[bool] = self.ask(list, "port_status")
        return result

    def register_memory(self, length: int) -> dict[str, int]:
        """A new zeroed region: its offset in the NIC's memory, length in bytes, and R_Key."""
        result: dict[str, int] = self.ask(dict, "register_memory", length=length)
        return result

    def deregister_memory(self, r_key: int) -> None:
        """Invalidates an R_Key."""
        self.call("deregister_memory", r_key=r_key)

    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed* into registered memory."""
        self.call("fill", offset=offset, length=length, seed=seed)

    def verify(self, offset: int, length: int, seed: int) -> int:
        """Number of bytes that differ from the test pattern of *seed*."""
        result: int = self.ask(int, "verify", offset=offset, length=length, seed=seed)
        return result

    def create_qp(self, peer_host: int, evs: list[int] | None = None, ev_profile: int | None = None, cc: str | None = None, cc_profile: Mapping[str, Any] | int | None = None, **attributes: int) -> int:
        """A QP in state INIT; returns its number. EVs on paths that are denied begin as DENIED."""
        result: int = self.ask(int, "create_qp", peer_host=peer_host, evs=evs, ev_profile=ev_profile, cc=cc, cc_profile=cc_profile, **attributes)
        return result

    def modify_qp(self, qpn: int, state: str, **attributes: int) -> int:
        """Moves a QP from one state to another, and sets what goes with that; returns its number."""
        result: int = self.ask(int, "modify_qp", qpn=qpn, state=state, **attributes)
        return result

    def connect_qp(self, qpn: int, peer_qpn: int, peer_first_psn: int | None = None) -> None:
        """Moves a QP through RTR to RTS towards the peer's QP."""
        self.call("connect_qp", qpn=qpn, peer_qpn=peer_qpn, peer_first_psn=peer_first_psn)

    def adjust_qp(self, qpn: int, mpr_dest: int | None = None, receiver_penalty: int | None = None) -> None:
        """Changes what a QP that receives asks of its peer."""
        self.call("adjust_qp", qpn=qpn, mpr_dest=mpr_dest, receiver_penalty=receiver_penalty)

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use; packets for it are dropped from now on."""
        self.call("destroy_qp", qpn=qpn)

    def query_qp(self, qpn: int) -> dict[str, Any]:
        """Attributes and state of a QP: what its peer has to know before they connect, among them."""
        result: dict[str, Any] = self.ask(dict, "query_qp", qpn=qpn)
        return result

    def list_qps(self) -> list[dict[str, Any]]:
        """Every QP: number, state, peer, and what is under way."""
        result: list[dict[str, Any]] = self.ask(list, "list_qps")
        return result

    def create_rc_qp(self, peer_host: int, evs: list[int], cc: dict[str, int], **attributes: int) -> int:
        """A reliable connection in state INIT; returns its number."""
        result: int = self.ask(int, "create_rc_qp", peer_host=peer_host, evs=evs, cc=cc, **attributes)
        return result

    def post_write(self, qpn: int, *, length: int, local_offset: int, remote_offset: int, r_key: int, iterations: int = 1, depth: int = 16, local_slots: int = 1, remote_slots: int = 1, immediate: int | None = None) -> int:
        """Posts an RDMA WRITE, `iterations` times over; returns the work request's id."""
        result: int = self.ask(int, "post_write", qpn=qpn, length=length, local_offset=local_offset, remote_offset=remote_offset, r_key=r_key, iterations=iterations, depth=depth, local_slots=local_slots, remote_slots=remote_slots, immediate=immediate)
        return result

    def stop_work(self, qpn: int, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        self.call("stop_work", qpn=qpn, work_id=work_id)

    def poll(self, qpn: int) -> list[dict[str, Any]]:
        """Takes the completions of a QP that wait, oldest first."""
        result: list[dict[str, Any]] = self.ask(list, "poll", qpn=qpn)
        return result

    def post_receive(self, qpn: int, count: int = 1) -> None:
        """Lets the peer's next *count* WRITEs with immediate come in, beyond those already posted."""
        self.call("post_receive", qpn=qpn, count=count)

    def poll_receive(self, qpn: int) -> list[dict[str, Any]]:
        """Takes the WRITEs with immediate that have arrived, in the order they were sent."""
        result: list[dict[str, Any]] = self.ask(list, "poll_receive", qpn=qpn)
        return result

    def ev_list(self, qpn: int) -> list[dict[str, Any]]:
        """Every EV of a QP: state, why and since when, and what it carried."""
        result: list[dict[str, Any]] = self.ask(list, "ev_list", qpn=qpn)
        return result

    def ev_deny(self, qpn: int, evs: list[int]) -> None:
        """Takes EVs of a QP, by index, out of use until they are allowed again."""
        self.call("ev_deny", qpn=qpn, evs=evs)

    def ev_allow(self, qpn: int, evs: list[int]) -> None:
        """Allow denied EVs of a QP, by index, again; those that are not denied are left as they are."""
        self.call("ev_allow", qpn=qpn, evs=evs)

    def deny_path(self, plane: int, uplink: int | None = None, peer_host: int | None = None) -> int:
        """Denies EVs of all QPs, also of those to come, that take a path; the number denied now."""
        result: int = self.ask(int, "deny_path", plane=plane, uplink=uplink, peer_host=peer_host)
        return result

    def allow_path(self, plane: int, uplink: int | None = None, peer_host: int | None = None) -> int:
        """Takes a path off the denylist, as `deny_path` put it there; the number of EVs allowed again."""
        result: int = self.ask(int, "allow_path", plane=plane, uplink=uplink, peer_host=peer_host)
        return result

    def denied_paths(self) -> list[dict[str, int | None]]:
        """The denylist: plane, uplink and peer_host of each path, None where all are meant."""
        result: list[dict[str, int | None]] = self.ask(list, "denied_paths")
        return result

    def probe(self, qpn: int, evs: list[int], kind: str = "ev") -> None:
        """Sends one probe on each EV of a QP, by index; the answer shows in `ev_list` and the counters."""
        self.call("probe", qpn=qpn, evs=evs, kind=kind)

    def query_device(self) -> dict[str, Any]:
        """The NIC's capabilities, and how much of them is left."""
        result: dict[str, Any] = self.ask(dict, "query_device")
        return result

    def modify_ev_format(self, format_id: int, state: str | None = None, mode: str | None = None, fields: list[int] | None = None) -> None:
        """Sets attributes of a format, then its state."""
        self.call("modify_ev_format", format_id=format_id, state=state, mode=mode, fields=fields)

    def query_ev_format(self, format_id: int) -> dict[str, Any]:
        """Mode, state and field widths of a format; in INIT it has neither mode nor fields."""
        result: dict[str, Any] = self.ask(dict, "query_ev_format", format_id=format_id)
        return result

    def modify_ev_profile(self, profile_id: int, state: str | None = None, **attributes: Any) -> None:
        """Sets attributes of a profile, then its state."""
        self.call("modify_ev_profile", profile_id=profile_id, state=state, **attributes)

    def query_ev_profile(self, profile_id: int) -> dict[str, Any]:
        """Attributes and state of a profile, and how many QPs use it; in INIT it has no attributes."""
        result: dict[str, Any] = self.ask(dict, "query_ev_profile", profile_id=profile_id)
        return result

    def list_ev_profiles(self) -> list[dict[str, Any]]:
        """Every EV profile that is not in INIT, as `query_ev_profile` describes it."""
        result: list[dict[str, Any]] = self.ask(list, "list_ev_profiles")
        return result

    def ev_profile_op(self, profile_id: int, ops: list[dict[str, Any]]) -> list[Any]:
        """Carries out operations on EVs of a profile, one after another; their results."""
        result: list[Any] = self.ask(list, "ev_profile_op", profile_id=profile_id, ops=ops)
        return result

    def modify_cc_profile(self, cc_profile_id: int, state: str | None = None, algorithm: str | None = None, config: Mapping[str, Any] | None = None) -> None:
        """Sets attributes of a profile, then its state."""
        self.call("modify_cc_profile", cc_profile_id=cc_profile_id, state=state, algorithm=algorithm, config=config)

    def query_cc_profile(self, cc_profile_id: int) -> dict[str, Any]:
        """State, what was given, and the window that a QP with full packets begins with, if it is adaptive."""
        result: dict[str, Any] = self.ask(dict, "query_cc_profile", cc_profile_id=cc_profile_id)
        return result

    def start_link_probes(self, interval_ns: int, lag_rounds: int) -> None:
        """Sends a probe on every probe path of the NIC, again and again."""
        self.call("start_link_probes", interval_ns=interval_ns, lag_rounds=lag_rounds)

    def stop_link_probes(self) -> None:
        """Sends no more link probes."""
        self.call("stop_link_probes")

    def probe_evs(self, peer_host: int, evs: list[int], wait_ns: int) -> list[dict[str, Any]]:
        """Probes paths to a host without a QP; for each EV `ev`, `port`, `req_id`, and `rtt_ns` or None."""
        result: list[dict[str, Any]] = self.ask(list, "probe_evs", peer_host=peer_host, evs=evs, wait_ns=wait_ns)
        return result

    def wait(self, qpn: int, wait_ns: int) -> list[dict[str, Any]]:
        """Completions of a QP as soon as there are any; none when the time-out passes first."""
        result: list[dict[str, Any]] = self.ask(list, "wait", qpn=qpn, wait_ns=wait_ns)
        return result
