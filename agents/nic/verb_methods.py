"""The verbs of a NIC as methods, whatever carries them to its agent."""

from abc import ABC, abstractmethod
from typing import Any, Final

from agents.errors import AgentError, UsageError

_HELLO: Final = {"host", "host_index", "memory_bytes", "qps_max"}


class VerbMethods(ABC):
    """Methods are the verbs of agents.nic.verbs.

    Each may raise AgentError (nobody answers) or UsageError (the agent refused; it names the argument).
    """

    @abstractmethod
    def call(self, verb: str, *, answer_ns: int | None = None, **arguments: Any) -> Any:
        """The result of any verb; the answer may take *answer_ns* instead of the usual limit."""

    @abstractmethod
    def cast(self, verb: str, **arguments: Any) -> None:
        """Sends a verb without waiting; one that the agent refuses comes back as an event `refused`."""

    def hello(self) -> dict[str, Any]:
        """Who answers: host, host_index, memory_bytes, qps_max.

        Raises:
            AgentError: nobody does, or not in this form.
        """
        try:
            result = self.call("hello")
        except UsageError as error:  # it takes no argument that could be refused
            raise AgentError(f"a NIC agent does not say who it is: {error.message}") from error
        if not isinstance(result, dict) or not result.keys() >= _HELLO:
            raise AgentError("a NIC agent does not say who it is")
        return result

    def denied_paths(self) -> list[dict[str, int]]:
        """Paths that no QP takes: peer_host, plane, uplink.

        Raises:
            AgentError: nobody answers, or not with a list.
        """
        result = self.call("denied_paths")
        if not isinstance(result, list):
            raise AgentError("a NIC agent does not say which paths it denies")
        return result

    def register_memory(self, length: int) -> dict[str, int]:
        """A new region: offset, length, r_key."""
        result: dict[str, int] = self.call("register_memory", length=length)
        return result

    def deregister_memory(self, r_key: int) -> None:
        """Invalidates a key."""
        self.call("deregister_memory", r_key=r_key)

    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed*."""
        self.call("fill", offset=offset, length=length, seed=seed)

    def verify(self, offset: int, length: int, seed: int) -> int:
        """Number of bytes that differ from the test pattern of *seed*."""
        return int(self.call("verify", offset=offset, length=length, seed=seed))

    def create_qp(self, peer_host: int, evs: list[int], **attributes: Any) -> int:
        """Number of a new QP (see Verbs.create_qp); attributes are those of agents.nic.qp.QpAttributes."""
        return int(self.call("create_qp", peer_host=peer_host, evs=evs, **attributes))

    def create_rc_qp(self, peer_host: int, evs: list[int], **attributes: Any) -> int:
        """Number of a new QP of a reliable connection (docs/explanation/transports.md)."""
        return int(self.call("create_rc_qp", peer_host=peer_host, evs=evs, **attributes))

    def create_stream(self, peer_host: int, protocol: str, congestion: str) -> int:
        """Number of a connection to be made over `tcp` or `mptcp`."""
        return int(self.call("create_stream", peer_host=peer_host, protocol=protocol, congestion=congestion))

    def await_stream(self, qpn: int, peer_qpn: int) -> None:
        """Lets the far end connect."""
        self.call("await_stream", qpn=qpn, peer_qpn=peer_qpn)

    def connect_stream(self, qpn: int, peer_qpn: int, plane: int) -> None:
        """Connects to the far end, which waits for it."""
        self.call("connect_stream", qpn=qpn, peer_qpn=peer_qpn, plane=plane)

    def connect_qp(self, qpn: int, peer_qpn: int, peer_first_psn: int | None = None) -> None:
        """Brings a QP to RTS (see Verbs.connect_qp)."""
        self.call("connect_qp", qpn=qpn, peer_qpn=peer_qpn, peer_first_psn=peer_first_psn)

    def query_qp(self, qpn: int) -> dict[str, Any]:
        """Attributes and state of a QP."""
        result: dict[str, Any] = self.call("query_qp", qpn=qpn)
        return result

    def modify_qp(self, qpn: int, state: str, **attributes: int) -> int:
        """Moves a QP to another state (see Verbs.modify_qp); its number."""
        return int(self.call("modify_qp", qpn=qpn, state=state, **attributes))

    def adjust_qp(
        self, qpn: int, *, mpr_dest: int | None = None, receiver_penalty: int | None = None
    ) -> None:
        """Changes what a QP that receives asks of its peer (see Verbs.adjust_qp)."""
        self.call("adjust_qp", qpn=qpn, mpr_dest=mpr_dest, receiver_penalty=receiver_penalty)

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use."""
        self.call("destroy_qp", qpn=qpn)

    def list_qps(self) -> list[dict[str, Any]]:
        """Every QP of the NIC."""
        result: list[dict[str, Any]] = self.call("list_qps")
        return result

    def post_write(self, qpn: int, **work: int) -> int:
        """Posts work (see Verbs.post_write); returns its id."""
        return int(self.call("post_write", qpn=qpn, **work))

    def post_receive(self, qpn: int, count: int = 1) -> None:
        """Lets the peer's next WRITEs with immediate come in."""
        self.call("post_receive", qpn=qpn, count=count)

    def poll_receive(self, qpn: int) -> list[dict[str, Any]]:
        """WRITEs with immediate that have arrived, in order: number, immediate, length, time_ns."""
        result: list[dict[str, Any]] = self.call("poll_receive", qpn=qpn)
        return result

    def stop_work(self, qpn: int, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        self.call("stop_work", qpn=qpn, work_id=work_id)

    def poll(self, qpn: int) -> list[dict[str, Any]]:
        """Completions that wait: work_id, iterations, status, time_ns."""
        result: list[dict[str, Any]] = self.call("poll", qpn=qpn)
        return result

    def ev_list(self, qpn: int) -> list[dict[str, Any]]:
        """Every EV of a QP."""
        result: list[dict[str, Any]] = self.call("ev_list", qpn=qpn)
        return result

    def ev_deny(self, qpn: int, evs: list[int]) -> None:
        """Takes EVs out of use."""
        self.call("ev_deny", qpn=qpn, evs=evs)

    def ev_allow(self, qpn: int, evs: list[int]) -> None:
        """Gives denied EVs back."""
        self.call("ev_allow", qpn=qpn, evs=evs)

    def probe(self, qpn: int, evs: list[int], kind: str = "ev") -> None:
        """Sends EV probes, or reliability probes."""
        self.call("probe", qpn=qpn, evs=evs, kind=kind)

    def start_link_probes(self, interval_ns: int, lag_rounds: int) -> None:
        """Has the NIC probe its links from now on, a round every *interval_ns*."""
        self.call("start_link_probes", interval_ns=interval_ns, lag_rounds=lag_rounds)

    def stop_link_probes(self) -> None:
        """Ends that."""
        self.call("stop_link_probes")

    def counters(self) -> dict[str, int]:
        """Counters of the NIC."""
        result: dict[str, int] = self.call("counters")
        return result

    def port_status(self) -> list[bool]:
        """Carrier of each port, by plane."""
        result: list[bool] = self.call("port_status")
        return result
