"""Tables of benchmarks in the output of ranks."""

import pytest

from mrc_testbed.workloads.printed_figures import PrintedFigure, PrintedFigures

WRITE_BW = """
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mrc0
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      1000             11.37              10.00    		   0.000182
---------------------------------------------------------------------------------------
"""
WRITE_BW_GBITS = """
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 2          5000           0.016              0.015              0.93
"""
WRITE_LAT = """
 #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] 99% percentile[usec]
 2       1000        8.20        20.10       9.50            9.61        12.00
"""
NCCL = """
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20
#
#                                                              out-of-place                       in-place
#     size   count    type   redop   root   time   algbw   busbw #wrong   time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   1048576  262144   float   sum   -1   123.4   8.50   14.87   0   121.0   8.67   15.17   0
   2097152  524288   float   sum   -1   200.0   10.49   18.35   N/A   201.0   10.43   18.26   N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 16.6613
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (WRITE_BW, [PrintedFigure(3, 65536, bandwidth_bps=10 * 8 * 2**20)]),
        (WRITE_BW_GBITS, [PrintedFigure(3, 2, bandwidth_bps=15e6)]),
        (WRITE_LAT, [PrintedFigure(3, 2, latency_ns=9500)]),
        (
            NCCL,
            [
                PrintedFigure(3, 1 << 20, 68e9, pytest.approx(118.96e9), 123_400, 0),  # type: ignore[arg-type]
                PrintedFigure(3, 2 << 20, pytest.approx(83.92e9), pytest.approx(146.8e9), 200_000),  # type: ignore[arg-type]
            ],
        ),
        ("65536 1000 11 10 1\nstep 3 loss 4.0\n", []),
    ],
)
def test_rows_of_a_table_are_figures(text: str, found: list[PrintedFigure]) -> None:
    figures = PrintedFigures()
    for line in text.splitlines():
        figures.take(3, line.encode())
        figures.take(4, b"65536 1000 11 10 1")
    assert figures.found == found


def test_tables_of_two_ranks_do_not_mix() -> None:
    figures = PrintedFigures()
    figures.take(0, WRITE_BW.splitlines()[4].encode())
    figures.take(1, WRITE_LAT.splitlines()[1].encode())
    figures.take(0, WRITE_BW.splitlines()[5].encode())
    assert [(each.rank, each.size_bytes) for each in figures.found] == [(0, 65536)]
