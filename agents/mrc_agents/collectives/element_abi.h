/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Elements of collectives, and their reductions. */
#ifndef MRC_ELEMENT_ABI_H
#define MRC_ELEMENT_ABI_H

enum mrc_coll_type {
	MRC_COLL_F32,
	MRC_COLL_F64,
	MRC_COLL_F16,
	MRC_COLL_BF16,
	MRC_COLL_I8,
	MRC_COLL_U8,
	MRC_COLL_I32,
	MRC_COLL_I64,
};

enum mrc_coll_reduction {
	MRC_COLL_SUM,
	MRC_COLL_PRODUCT,
	MRC_COLL_MIN,
	MRC_COLL_MAX,
	MRC_COLL_AND, /* bits; of integers only */
	MRC_COLL_OR,
	MRC_COLL_XOR,
};

#endif
