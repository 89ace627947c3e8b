/* SPDX-License-Identifier: BSD-2-Clause */
/* config.h - the settings table: one row for each variable, its range and its meaning. */
#ifndef API_CONFIG_H
#define API_CONFIG_H

#include "engine/job.h"

/* The program's configuration (NULL: none) and the environment, checked. -EINVAL after a message. */
int config_read(const struct dsm_config *cfg, struct settings *out);
void config_warn(void); /* a line for each DSM_ variable that is no setting */
void config_help(void); /* DSM_HELP=1 */

#endif
