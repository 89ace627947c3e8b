// SPDX-License-Identifier: GPL-2.0
#include "../libdsm/core/lease.c"
