// SPDX-License-Identifier: BSD-2-Clause
/* error.c - dsm_strerror(), which the messages of all folders use. */
#include <errno.h>
#include <string.h>

#include "dsm.h"

DSM_API const char *dsm_strerror(int err)
{
	switch (err < 0 ? -err : err) {
	case 0: return "success";
	case ENOTCONN: return "the library is not initialised (dsm_init), or has been finalized";
	case ECHILD: return "not available in a child made by fork()";
	case EALREADY: return "done before";
	case EOWNERDEAD: return "a rank of the job is lost";
	case EADDRNOTAVAIL: return "no common range of addresses";
	case EBADMSG: return "a peer sent a malformed message";
	case EPROTO: return "the ranks of the job do not fit together";
	case ENODEV: return "no usable fault backend or transport";
	case EFAULT: return "not within one attached region or the heap";
	case EMFILE: return "no file descriptor left";
	default:
		return strerrordesc_np(err < 0 ? -err : err) ? strerrordesc_np(err < 0 ? -err : err)
							     : "unknown error";
	}
}
