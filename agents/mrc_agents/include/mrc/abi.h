/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The only declaration of what BPF programs and Python share: map keys and values, events, limits.
 * mrc_agents/abi.py is generated from the BTF of abi.bpf.c (`make abi`); a test fails when they
 * drift.
 *
 * Conventions: host byte order unless the type is __be*; times are CLOCK_MONOTONIC nanoseconds;
 * padding is explicit. Constants are enums because preprocessor values never reach BTF.
 */
#ifndef MRC_ABI_H
#define MRC_ABI_H

#include <mrc/limit_abi.h>
#include <mrc/fabric_abi.h>
#include <mrc/fault_abi.h>
#include <mrc/port_abi.h>
#include <mrc/nic_abi.h>
#include <mrc/stage_abi.h>
#include <mrc/qp_abi.h>
#include <mrc/work_abi.h>
#include <mrc/link_probe_abi.h>

#endif
