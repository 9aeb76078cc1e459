/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Versions of libmrc's data API. A program may define MRC_API_VER_USED before the include. */
#ifndef MRC_API_VER_H
#define MRC_API_VER_H

#define MRC_API_VER_MAJOR_OFFSET    24
#define MRC_API_VER_MINOR_OFFSET    16
#define MRC_API_VER_SUBMINOR_OFFSET 0
#define MRC_API_VER(major, minor, subminor)                                                        \
	((major) << MRC_API_VER_MAJOR_OFFSET | (minor) << MRC_API_VER_MINOR_OFFSET |               \
	 (subminor) << MRC_API_VER_SUBMINOR_OFFSET)
#define MRC_API_VER_LATEST		      MRC_API_VER(0xff, 0xff, 0xffff)
#define MRC_API_CURRENT_VERSION		      MRC_API_VER(1, 0, 1)
#define MRC_API_LAST_SUPPORTED_VERSION	      MRC_API_VER(0, 0, 0)
#define MRC_VENDOR_API_CURRENT_VERSION	      MRC_API_VER(1, 0, 0)
#define MRC_VENDOR_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)

#ifndef MRC_API_VER_USED
#define MRC_API_VER_USED MRC_API_CURRENT_VERSION
#endif
#if MRC_API_VER_USED == MRC_API_VER_LATEST
#undef MRC_API_VER_USED
#define MRC_API_VER_USED MRC_API_CURRENT_VERSION
#endif
#ifndef MRC_VENDOR_API_VER_USED
#define MRC_VENDOR_API_VER_USED MRC_VENDOR_API_CURRENT_VERSION
#endif
#if MRC_API_VER_USED > MRC_API_CURRENT_VERSION
#error "MRC_API_VER_USED is newer than this header"
#endif

#endif
