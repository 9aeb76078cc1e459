/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The paths of the NIC, which QPs to hosts of the same T0 share: when one of them loses a packet on
 * a path, the others leave it alone too, until a probe has been answered often enough
 * (docs/protocol.md, "Shared paths").
 */
#ifndef MRC_NIC_PATH_H
#define MRC_NIC_PATH_H

#include <mrc/verifier.h>
#include "frame.h"
#include "nic_maps.h"

/* A suspicion that nothing has confirmed for so long ends: the QP that would probe is gone. */
#define SUSPICION_NS 2000000000ULL

static __always_inline __u32 nic_path(const struct mrc_qp *qp, __u32 entropy)
{
	__u32 place = qp->nic_path_base + (entropy >> MRC_EV_PLANE_SHIFT) * qp->uplink_count +
		      (qp->is_local ? 0 : entropy_uplink(entropy));

	return index_within(place, MRC_NIC_PATHS);
}

/* Whether another path is to be taken if there is one. */
static __always_inline int is_suspected(const struct mrc_qp *qp, const struct mrc_nic_paths *paths,
					__u32 entropy, __u64 now_ns)
{
	__u64 since_ns;

	if (!qp->shares_paths)
		return 0;
	since_ns = paths->path[nic_path(qp, entropy)].suspected_ns;
	return since_ns && now_ns - since_ns < SUSPICION_NS;
}

/* An EV has become ASSUMED_BAD, or a probe on it is not answered. */
static __always_inline void path_suspect(const struct mrc_qp *qp, __u32 entropy)
{
	struct mrc_nic_paths *paths = lookup0(&nic_paths);
	__u64 now_ns = bpf_ktime_get_ns();
	struct mrc_nic_path *path;

	if (!paths || !qp->shares_paths)
		return;
	path = &paths->path[nic_path(qp, entropy)];
	if (!path->suspected_ns || now_ns - path->suspected_ns >= SUSPICION_NS)
		path->falls++;
	path->suspected_ns = now_ns;
}

/* An EV on it has come back. */
static __always_inline void path_trust(const struct mrc_qp *qp, __u32 entropy)
{
	struct mrc_nic_paths *paths = lookup0(&nic_paths);

	if (paths && qp->shares_paths)
		paths->path[nic_path(qp, entropy)].suspected_ns = 0;
}

#endif
