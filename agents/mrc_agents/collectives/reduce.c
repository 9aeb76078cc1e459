// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Reductions of elements, each made in the type of the element: 16-bit floats are rounded at every
 * step. */
#include <stdio.h>
#include <string.h>
#include "coll.h"

static const struct {
	size_t bytes;
	const char *name;
} types[] = {
    [MRC_COLL_F32] = {4, "f32"},   [MRC_COLL_F64] = {8, "f64"}, [MRC_COLL_F16] = {2, "f16"},
    [MRC_COLL_BF16] = {2, "bf16"}, [MRC_COLL_I8] = {1, "i8"},	[MRC_COLL_U8] = {1, "u8"},
    [MRC_COLL_I32] = {4, "i32"},   [MRC_COLL_I64] = {8, "i64"},
};

size_t coll_element_bytes(enum mrc_coll_type type)
{
	return types[type].bytes;
}

/* Writes what a rank does that makes this call. */
void coll_describe(struct call call, char text[CALL_BYTES])
{
	static const char *const kinds[] = {
	    [EXCHANGE] = "sends or receives",
	    [ALL_GATHER] = "gathers",
	    [ALL_REDUCE] = "reduces",
	    [REDUCE_SCATTER] = "reduces and scatters",
	};
	static const char *const reductions[] = {
	    [MRC_COLL_SUM] = "SUM", [MRC_COLL_PRODUCT] = "PRODUCT", [MRC_COLL_MIN] = "MIN",
	    [MRC_COLL_MAX] = "MAX", [MRC_COLL_AND] = "AND",	    [MRC_COLL_OR] = "OR",
	    [MRC_COLL_XOR] = "XOR",
	};

	if (call.kind < ALL_REDUCE)
		snprintf(text, CALL_BYTES, "%s", kinds[call.kind]);
	else
		snprintf(text, CALL_BYTES, "%s %s by %s", kinds[call.kind], types[call.type].name,
			 reductions[call.reduction]);
}

static float to_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint32_t to_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float from_bf16(uint16_t half)
{
	return to_float((uint32_t)half << 16);
}

/* Rounds to nearest, ties to even, as all here. */
static uint16_t to_bf16(float value)
{
	uint32_t bits = to_bits(value);

	if (value != value)
		return 0x7fc0;
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static float from_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;

	if (magnitude >= 0x7c00) /* infinity, NaN */
		return to_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
	/* The exponent is too small by 112: scaled, which makes subnormal numbers right too. */
	return to_float(sign | to_bits(to_float(magnitude << 13) * 0x1p112f));
}

static uint16_t to_f16(float value)
{
	uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

	if (magnitude > 0x7f800000)
		return sign | 0x7e00;
	if (magnitude >= 0x47800000) /* 2^16 */
		return sign | 0x7c00;
	if (magnitude < 0x38800000) /* below 2^-14: its last place is 2^-24, that of 0.5 */
		return sign | (to_bits(to_float(magnitude) + 0.5f) - to_bits(0.5f));
	return sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13);
}

#define FOR_EACH(T, EXPRESSION)                                                                    \
	do {                                                                                       \
		T *to = into;                                                                      \
		const T *add = from;                                                               \
		for (size_t i = 0; i < bytes / sizeof(T); i++) {                                   \
			T a = to[i], b = add[i];                                                   \
			to[i] = (EXPRESSION);                                                      \
		}                                                                                  \
	} while (0)

#define ARITHMETIC(T, ADD, MULTIPLY, LESS)                                                         \
	case MRC_COLL_SUM:                                                                         \
		FOR_EACH(T, ADD);                                                                  \
		break;                                                                             \
	case MRC_COLL_PRODUCT:                                                                     \
		FOR_EACH(T, MULTIPLY);                                                             \
		break;                                                                             \
	case MRC_COLL_MIN:                                                                         \
		FOR_EACH(T, (LESS) ? a : b);                                                       \
		break;                                                                             \
	case MRC_COLL_MAX:                                                                         \
		FOR_EACH(T, (LESS) ? b : a);                                                       \
		break;

/* The arithmetic is that of the unsigned type, which wraps. */
#define INTEGERS(T, U)                                                                             \
	switch (reduction) {                                                                       \
		ARITHMETIC(T, (T)((U)a + (U)b), (T)((U)a * (U)b), a < b)                           \
	case MRC_COLL_AND:                                                                         \
		FOR_EACH(T, a &b);                                                                 \
		break;                                                                             \
	case MRC_COLL_OR:                                                                          \
		FOR_EACH(T, a | b);                                                                \
		break;                                                                             \
	case MRC_COLL_XOR:                                                                         \
		FOR_EACH(T, a ^ b);                                                                \
		break;                                                                             \
	}                                                                                          \
	break

#define REALS(T, ADD, MULTIPLY, LESS)                                                              \
	switch (reduction) {                                                                       \
		ARITHMETIC(T, ADD, MULTIPLY, LESS)                                                 \
	default:                                                                                   \
		break; /* refused before */                                                        \
	}                                                                                          \
	break

#define FLOATS(T) REALS(T, a + b, a * b, a < b)
#define HALVES(FROM, TO)                                                                           \
	REALS(uint16_t, TO(FROM(a) + FROM(b)), TO(FROM(a) * FROM(b)), FROM(a) < FROM(b))

void coll_reduce(void *into, const void *from, size_t bytes, enum mrc_coll_type type,
		 enum mrc_coll_reduction reduction)
{
	switch (type) {
	case MRC_COLL_F32:
		FLOATS(float);
	case MRC_COLL_F64:
		FLOATS(double);
	case MRC_COLL_F16:
		HALVES(from_f16, to_f16);
	case MRC_COLL_BF16:
		HALVES(from_bf16, to_bf16);
	case MRC_COLL_I8:
		INTEGERS(int8_t, uint8_t);
	case MRC_COLL_U8:
		INTEGERS(uint8_t, uint8_t);
	case MRC_COLL_I32:
		INTEGERS(int32_t, uint32_t);
	case MRC_COLL_I64:
		INTEGERS(int64_t, uint64_t);
	}
}
