/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Idioms that the verifiers of older kernels need; each costs an instruction or none.
 * docs/reference/kernels.md says which kernels these programs are loaded on. Each idiom is here
 * once, with the newest kernel series that is known to reject the plain form.
 *
 * barrier_var(), of libbpf, makes the compiler forget what it knows of a number: it then neither
 * drops a test or a mask that only the verifier needs, nor folds it into one that older verifiers
 * cannot follow.
 */
#ifndef MRC_VERIFIER_H
#define MRC_VERIFIER_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/*
 * The index of an element of an array of `size`, a power of two, elements. 6.1: a register that was
 * spilled around a call or negated comes back without its bounds, also where the compiler has just
 * tested them and would leave the mask out.
 */
static __always_inline __u32 index_within(__u32 index, __u32 size)
{
	asm("" : "+r"(index)); /* not volatile: the same index is masked once */
	return index & (size - 1);
}

/*
 * True if a length that a helper is to be given is 1 .. max bytes. 6.1 learns nothing from a test
 * against 0, so that "0 bytes" stays possible; 6.12 cannot follow two tests that the compiler has
 * made one of.
 */
static __always_inline int length_within(__u64 *length, __u64 max)
{
	__u64 last = *length - 1;

	barrier_var(last);
	*length = last + 1;
	return last < max;
}

/*
 * At the end of the body of a loop that is not unrolled. 6.1 accepts loops that a jump closes, and
 * refuses those that fall through into their head ("back-edge"), as the compiler lays them out when
 * it can put the counting first.
 */
#define LOOP_ENDS(counter) barrier_var(counter)

/*
 * The result of one step of a long calculation, all loads of which are done. Else the compiler
 * sorts the loads of many steps, and keeps what it has of each on the stack, of which 6.1 lets a
 * chain of calls have 512 bytes, counting each function's in units of 32.
 */
static __always_inline __u32 step_done(__u32 result)
{
	asm volatile("" : "+r"(result) : : "memory");
	return result;
}

/*
 * The element whose timer has fired, in its callback. 6.1 gives the callback's own pointer no
 * identity, and so does not see that its lock is held: "bpf_spin_unlock without taking a lock".
 */
#define TIMER_ELEMENT(map, key) bpf_map_lookup_elem(map, key)

#endif
