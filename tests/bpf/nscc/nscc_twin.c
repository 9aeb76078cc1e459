// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* NSCC as a shared library. */
#include "nscc_step.h"

__u32 step(struct mrc_cc *cc, const struct mrc_cc_parameters *parameters,
	   const struct mrc_step *step)
{
	return cc_step(cc, parameters, step);
}
