/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Byte orders, for a host without libbpf. */
#ifndef VIRTUAL_BPF_ENDIAN_H
#define VIRTUAL_BPF_ENDIAN_H

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the agents' Python code reads integers of the NIC as little-endian ones"
#endif

#define bpf_htons(value)       __builtin_bswap16(value)
#define bpf_ntohs(value)       __builtin_bswap16(value)
#define bpf_htonl(value)       __builtin_bswap32(value)
#define bpf_ntohl(value)       __builtin_bswap32(value)
#define bpf_cpu_to_be64(value) __builtin_bswap64(value)
#define bpf_be64_to_cpu(value) __builtin_bswap64(value)

#endif
