/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CRC-32 of Ethernet (reflected, polynomial 0xedb88320), sixteen bytes a step.
 *
 * crc32_table[k][byte] is what `byte` followed by k zero bytes contributes. Contributions of bits
 * add up, so each entry is made here from the eight of its bits, and those follow from one another:
 * moving a bit one place further from the end of the message is one step of the shift register.
 */
#ifndef MRC_CRC32_H
#define MRC_CRC32_H

#include <linux/types.h>

enum {
	CRC32_STEP_BYTES = 16,
	CRC32_ALL_ONES_8 = 0x2144df1c ^ 0xffffffff, /* register after eight bytes of ones */
};

#define CRC32_SHIFT(x) (((__u32)(x) >> 1) ^ ((__u32)(x)&1 ? 0xedb88320U : 0U))

/* Contribution of bit b of a byte followed by k zero bytes: CRC32_BIT_k_b. */
#define CRC32_BITS(k, previous)                                                                    \
	CRC32_BIT_##k##_7 = CRC32_SHIFT(previous),                                                 \
	CRC32_BIT_##k##_6 = CRC32_SHIFT(CRC32_BIT_##k##_7),                                        \
	CRC32_BIT_##k##_5 = CRC32_SHIFT(CRC32_BIT_##k##_6),                                        \
	CRC32_BIT_##k##_4 = CRC32_SHIFT(CRC32_BIT_##k##_5),                                        \
	CRC32_BIT_##k##_3 = CRC32_SHIFT(CRC32_BIT_##k##_4),                                        \
	CRC32_BIT_##k##_2 = CRC32_SHIFT(CRC32_BIT_##k##_3),                                        \
	CRC32_BIT_##k##_1 = CRC32_SHIFT(CRC32_BIT_##k##_2),                                        \
	CRC32_BIT_##k##_0 = CRC32_SHIFT(CRC32_BIT_##k##_1)

enum {
	CRC32_BITS(0, 1),
	CRC32_BITS(1, CRC32_BIT_0_0),
	CRC32_BITS(2, CRC32_BIT_1_0),
	CRC32_BITS(3, CRC32_BIT_2_0),
	CRC32_BITS(4, CRC32_BIT_3_0),
	CRC32_BITS(5, CRC32_BIT_4_0),
	CRC32_BITS(6, CRC32_BIT_5_0),
	CRC32_BITS(7, CRC32_BIT_6_0),
	CRC32_BITS(8, CRC32_BIT_7_0),
	CRC32_BITS(9, CRC32_BIT_8_0),
	CRC32_BITS(10, CRC32_BIT_9_0),
	CRC32_BITS(11, CRC32_BIT_10_0),
	CRC32_BITS(12, CRC32_BIT_11_0),
	CRC32_BITS(13, CRC32_BIT_12_0),
	CRC32_BITS(14, CRC32_BIT_13_0),
	CRC32_BITS(15, CRC32_BIT_14_0),
};

#define CRC32_PART(k, byte, b) ((byte) >> (b)&1 ? (__u32)CRC32_BIT_##k##_##b : 0U)
#define CRC32_ENTRY(k, byte)                                                                       \
	(CRC32_PART(k, byte, 0) ^ CRC32_PART(k, byte, 1) ^ CRC32_PART(k, byte, 2) ^                \
	 CRC32_PART(k, byte, 3) ^ CRC32_PART(k, byte, 4) ^ CRC32_PART(k, byte, 5) ^                \
	 CRC32_PART(k, byte, 6) ^ CRC32_PART(k, byte, 7))
#define CRC32_ENTRIES_4(k, byte)                                                                   \
	CRC32_ENTRY(k, byte), CRC32_ENTRY(k, (byte) + 1), CRC32_ENTRY(k, (byte) + 2),              \
	    CRC32_ENTRY(k, (byte) + 3)
#define CRC32_ENTRIES_16(k, byte)                                                                  \
	CRC32_ENTRIES_4(k, byte), CRC32_ENTRIES_4(k, (byte) + 4), CRC32_ENTRIES_4(k, (byte) + 8),  \
	    CRC32_ENTRIES_4(k, (byte) + 12)
#define CRC32_ENTRIES_64(k, byte)                                                                  \
	CRC32_ENTRIES_16(k, byte), CRC32_ENTRIES_16(k, (byte) + 16),                               \
	    CRC32_ENTRIES_16(k, (byte) + 32), CRC32_ENTRIES_16(k, (byte) + 48)
#define CRC32_ROW(k)                                                                               \
	{                                                                                          \
		CRC32_ENTRIES_64(k, 0), CRC32_ENTRIES_64(k, 64), CRC32_ENTRIES_64(k, 128),         \
		    CRC32_ENTRIES_64(k, 192)                                                       \
	}

static const __u32 crc32_table[CRC32_STEP_BYTES][256] = {
    CRC32_ROW(0),  CRC32_ROW(1),  CRC32_ROW(2),	 CRC32_ROW(3),	CRC32_ROW(4),  CRC32_ROW(5),
    CRC32_ROW(6),  CRC32_ROW(7),  CRC32_ROW(8),	 CRC32_ROW(9),	CRC32_ROW(10), CRC32_ROW(11),
    CRC32_ROW(12), CRC32_ROW(13), CRC32_ROW(14), CRC32_ROW(15),
};

/* The register after four more bytes, given as a little-endian word. */
static __always_inline __u32 crc32_add_4(__u32 crc, __u32 word)
{
	crc ^= word;
	return crc32_table[3][crc & 0xff] ^ crc32_table[2][crc >> 8 & 0xff] ^
	       crc32_table[1][crc >> 16 & 0xff] ^ crc32_table[0][crc >> 24];
}

/* The register after eight more bytes. */
static __always_inline __u32 crc32_add_8(__u32 crc, __u64 word)
{
	word ^= crc;
	return crc32_table[7][word & 0xff] ^ crc32_table[6][word >> 8 & 0xff] ^
	       crc32_table[5][word >> 16 & 0xff] ^ crc32_table[4][word >> 24 & 0xff] ^
	       crc32_table[3][word >> 32 & 0xff] ^ crc32_table[2][word >> 40 & 0xff] ^
	       crc32_table[1][word >> 48 & 0xff] ^ crc32_table[0][word >> 56];
}

/* The register after sixteen more bytes; only the first four must wait for the register. */
static __always_inline __u32 crc32_add_16(__u32 crc, const __u8 *bytes)
{
	crc ^= *(const __u32 *)bytes;
	return crc32_table[15][crc & 0xff] ^ crc32_table[14][crc >> 8 & 0xff] ^
	       crc32_table[13][crc >> 16 & 0xff] ^ crc32_table[12][crc >> 24] ^
	       crc32_table[11][bytes[4]] ^ crc32_table[10][bytes[5]] ^ crc32_table[9][bytes[6]] ^
	       crc32_table[8][bytes[7]] ^ crc32_table[7][bytes[8]] ^ crc32_table[6][bytes[9]] ^
	       crc32_table[5][bytes[10]] ^ crc32_table[4][bytes[11]] ^ crc32_table[3][bytes[12]] ^
	       crc32_table[2][bytes[13]] ^ crc32_table[1][bytes[14]] ^ crc32_table[0][bytes[15]];
}

#endif
