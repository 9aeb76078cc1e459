"""NSCC as the text has it, in real numbers: what the fixed-point reference is measured against.

Written from docs/reference/protocol.md alone, event rules in the order given there, alpha and all ratios
unrounded.
"""

from dataclasses import dataclass

from reference.congestion import DELAY_SHIFT
from reference.nscc import Nscc

from mrc_testbed.agents.protocol.cc_profile import CcProfile

UNIT_BYTES = 256


@dataclass
class TextNscc:
    """The state that the text names; times in ns, sizes in bytes."""

    profile: CcProfile
    cwnd: float
    max_wnd: float
    base_rtt: float
    inflight: float = 0
    saved_cwnd: float = 0
    achieved_bytes: float = 0
    received_bytes: float = 0
    fi_count: float = 0
    trigger_qa: bool = False
    qa_endtime: float = 0
    bytes_to_ignore: float = 0
    bytes_ignored: float = 0
    inc_bytes: float = 0
    last_adjust_time: float = 0
    increase_mode: bool = False
    last_dec_time: float = 0
    avg_delay: float = 0

    @classmethod
    def like(cls, nscc: Nscc, profile: CcProfile) -> "TextNscc":
        """The state that *nscc* is in."""
        return cls(
            profile,
            cwnd=nscc.cwnd_bytes,
            max_wnd=nscc.max_wnd_bytes,
            base_rtt=nscc.base_rtt_ns,
            inflight=nscc.inflight_bytes,
            saved_cwnd=nscc.saved_cwnd_bytes,
            achieved_bytes=nscc.achieved_bytes,
            received_bytes=nscc.received_bytes,
            fi_count=nscc.fi_count_bytes,
            trigger_qa=bool(nscc.is_qa_triggered),
            qa_endtime=nscc.qa_end_ns,
            bytes_to_ignore=nscc.bytes_to_ignore,
            bytes_ignored=nscc.bytes_ignored,
            inc_bytes=nscc.increase_square_bytes,
            last_adjust_time=nscc.last_adjust_ns,
            increase_mode=bool(nscc.is_increasing),
            last_dec_time=nscc.last_decrease_ns,
            avg_delay=nscc.avg_delay_q8 / (1 << DELAY_SHIFT),
        )

    def on_sack(self, now: float, n: float, rtt: float | None, is_marked: bool, penalty: int = 0) -> None:
        p = self.profile
        self.inflight -= n
        self.bytes_ignored += n
        self.received_bytes += n
        self.achieved_bytes += n
        delay = self.avg_delay // 1  # delays are whole ns
        if rtt is not None:
            if rtt < self.base_rtt:
                self.base_rtt = rtt
                self.max_wnd = max(p.max_cwnd_bytes * rtt / p.base_rtt_ns, p.mtu_bytes)
            delay = rtt - self.base_rtt
            self.avg_delay += float(p.delay_gain) * (delay - self.avg_delay)
        self.cwnd = min(self.cwnd, self.max_wnd)
        if penalty:
            self.saved_cwnd = self.saved_cwnd or self.cwnd
            self.cwnd = max(p.mtu_bytes, min(self.cwnd, self.inflight) - penalty * n / 128)
        if self.quick_adapt(now, is_loss=False, is_marked=is_marked, delay=delay):
            return
        if is_marked and delay >= p.target_delay_ns:
            self.multiplicative_decrease(now)
        elif not is_marked and not penalty:
            self.increase(n, delay)
        if not penalty:
            self.fulfil(now)

    def multiplicative_decrease(self, now: float) -> None:
        p = self.profile
        self.increase_mode = False
        self.fi_count = 0
        if self.avg_delay > p.target_delay_ns and now - self.last_dec_time >= self.base_rtt:
            cut = float(p.gamma) * (self.avg_delay - p.target_delay_ns) / self.avg_delay
            self.cwnd = max(p.mtu_bytes, self.cwnd * max(1 - cut, float(p.max_md_jump)))
            self.last_dec_time = now

    def increase(self, n: float, delay: float) -> None:
        p = self.profile
        if delay <= p.no_delay_ns:
            self.fi_count += n
            self.increase_mode = self.increase_mode or self.fi_count > self.cwnd
        else:
            self.fi_count = 0
            self.increase_mode = False
        if self.increase_mode:
            self.cwnd = min(self.cwnd + n * float(p.fi_scale), self.max_wnd)
        elif delay < p.target_delay_ns:
            self.inc_bytes += float(p.alpha_bytes_per_ns) * n * (p.target_delay_ns - delay)
        else:
            self.inc_bytes += p.fi_bytes * n

    def fulfil(self, now: float) -> None:
        p = self.profile
        is_period_over = now - self.last_adjust_time >= p.adjust_period_threshold_ns
        if is_period_over or self.received_bytes > p.adjust_bytes_threshold:
            self.cwnd += self.inc_bytes / self.cwnd
            self.inc_bytes = self.received_bytes = 0
            if is_period_over:
                self.last_adjust_time = now
                self.cwnd += p.eta_bytes
            self.cwnd = min(self.cwnd, self.max_wnd)

    def quick_adapt(self, now: float, *, is_loss: bool, is_marked: bool, delay: float) -> bool:
        p = self.profile
        is_handled = False
        if p.disable_qa:
            return False
        if self.bytes_ignored < self.bytes_to_ignore and is_marked:
            is_handled = True
        elif now >= self.qa_endtime:
            is_late = p.qa_threshold_ns is not None and delay > p.qa_threshold_ns
            if (
                self.qa_endtime
                and (self.trigger_qa or is_loss or is_late)
                and self.achieved_bytes < self.max_wnd // 2**p.qa_gate
            ):
                self.cwnd = max(self.achieved_bytes, p.mtu_bytes)
                self.bytes_to_ignore = max(self.inflight, 0)
                self.bytes_ignored = 0
                self.trigger_qa = False
                is_handled = True
            self.achieved_bytes = 0
            self.qa_endtime = now + self.base_rtt + p.target_delay_ns
        if is_handled:
            self.inc_bytes = self.received_bytes = 0
        return is_handled

    def on_trim(self, now: float, size: float) -> None:
        p = self.profile
        self.inflight -= size
        self.bytes_ignored += size
        self.avg_delay += float(p.delay_gain) * (self.base_rtt - self.avg_delay)
        self.trigger_qa = True
        if not self.quick_adapt(now, is_loss=True, is_marked=True, delay=0):
            self.cwnd = max(self.cwnd - size, p.mtu_bytes)
