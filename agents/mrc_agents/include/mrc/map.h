/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Definitions of maps whose keys are indices. */
#ifndef MRC_MAP_H
#define MRC_MAP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define INDEX_MAP(kind, name, value_type, entries)                                                 \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_##kind);                                                 \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, value_type);                                                         \
	} name SEC(".maps")

#define MMAPABLE_ARRAY(name, value_type, entries)                                                  \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, value_type);                                                         \
	} name SEC(".maps")

#endif
