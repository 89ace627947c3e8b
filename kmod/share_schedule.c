// SPDX-License-Identifier: GPL-2.0
#include "../libdsm/share/schedule.c"
