// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Compiled for its BTF only, never loaded: the source of agents/wire_abi.py. */
#include <mrc/abi.h>
#include <mrc/queue_abi.h>

/* A global of pointer type keeps a type in the BTF even where no map uses it. */
#define KEEP(kind, name) const kind name *keep_##name __attribute__((unused))

KEEP(enum, mrc_limit);
KEEP(enum, mrc_port_kind);
KEEP(enum, mrc_port_fault);
KEEP(struct, mrc_port);
KEEP(struct, mrc_port_state);
KEEP(enum, mrc_port_counter);
KEEP(struct, mrc_port_counters);
KEEP(struct, mrc_capture_record);
KEEP(struct, mrc_capture_state);
KEEP(enum, mrc_fib);
KEEP(enum, mrc_usid);
KEEP(enum, mrc_ev_layout);
KEEP(enum, mrc_traffic_class);
KEEP(enum, mrc_dscp);
KEEP(struct, mrc_nic_config);
KEEP(enum, mrc_qp_state);
KEEP(enum, mrc_ev_state);
KEEP(enum, mrc_ev_reason);
KEEP(struct, mrc_ev);
KEEP(struct, mrc_ev_plane);
KEEP(struct, mrc_ev_transitions);
KEEP(struct, mrc_tx_slot);
KEEP(enum, mrc_loss);
KEEP(struct, mrc_immediate);
KEEP(struct, mrc_qp);
KEEP(struct, mrc_work);
KEEP(struct, mrc_work_ring);
KEEP(struct, mrc_region);
KEEP(struct, mrc_probe);
KEEP(enum, mrc_probe_kind);
KEEP(enum, mrc_kick_mode);
KEEP(enum, mrc_command);
KEEP(struct, mrc_kick);
KEEP(enum, mrc_event_kind);
KEEP(enum, mrc_status);
KEEP(struct, mrc_event);
KEEP(enum, mrc_nic_counter);
KEEP(struct, mrc_nic_counters);
KEEP(struct, mrc_histogram);
KEEP(enum, mrc_queue_limit);
KEEP(struct, mrc_queue_descriptors);
KEEP(struct, mrc_queue_pool);
KEEP(struct, mrc_queue_port);
KEEP(struct, mrc_queue_state);
KEEP(struct, mrc_queue_drainer);
KEEP(struct, mrc_frame_time);
