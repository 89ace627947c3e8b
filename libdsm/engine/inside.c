// SPDX-License-Identifier: BSD-2-Clause
/* inside.c - see inside.h. */
#include "engine/inside.h"

__thread int engine_depth __attribute__((tls_model("initial-exec")));
__thread int engine_cancel __attribute__((tls_model("initial-exec")));
__thread int engine_rests __attribute__((tls_model("initial-exec")));
