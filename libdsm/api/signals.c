// SPDX-License-Identifier: BSD-2-Clause
/* signals.c - handlers that interrupt the runtime. */
#include "api/api.h"
#include "engine/inside.h"

DSM_API int dsm_signal_defer(int sig, void *info, void *context)
{
	return engine_busy() && !engine_keep_signal(sig, info, context);
}
