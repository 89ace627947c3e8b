/* SPDX-License-Identifier: BSD-2-Clause */
/* config.h - the settings table: one row per variable, with its range and meaning. */
#ifndef API_CONFIG_H
#define API_CONFIG_H

#include "job/job.h"

/* Read and check the program's configuration (NULL: none) and the environment. -EINVAL, logged. */
int config_read(const struct dsm_config *cfg, struct settings *out);
void config_warn(void); /* log each DSM_ variable that is not a setting */
void config_help(void); /* print the settings, for DSM_HELP=1 */

#endif
