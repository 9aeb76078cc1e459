/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Versions of libmrc's control API. A program may define MRC_CTL_API_VER_USED before the include. */
#ifndef MRC_CTL_API_VER_H
#define MRC_CTL_API_VER_H

#include <mrc_api_ver.h>

#define MRC_CTL_API_VER(major, minor, subminor)	  MRC_API_VER(major, minor, subminor)
#define MRC_CTL_API_VER_LATEST			  MRC_API_VER_LATEST
#define MRC_CTL_API_CURRENT_VERSION		  MRC_API_VER(1, 0, 1)
#define MRC_CTL_API_LAST_SUPPORTED_VERSION	  MRC_API_VER(0, 0, 0)
#define MRC_CTL_VENDOR_API_CURRENT_VERSION	  MRC_API_VER(1, 0, 0)
#define MRC_CTL_VENDOR_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)

#ifndef MRC_CTL_API_VER_USED
#define MRC_CTL_API_VER_USED MRC_CTL_API_CURRENT_VERSION
#endif
#if MRC_CTL_API_VER_USED == MRC_CTL_API_VER_LATEST
#undef MRC_CTL_API_VER_USED
#define MRC_CTL_API_VER_USED MRC_CTL_API_CURRENT_VERSION
#endif
#if MRC_CTL_API_VER_USED > MRC_CTL_API_CURRENT_VERSION
#error "MRC_CTL_API_VER_USED is newer than this header"
#endif

#endif
