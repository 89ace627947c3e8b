/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ucp_api.h - the functions of UCX, resolved when a transport is opened instead of when the program
 * is loaded.
 *
 * When loaded, UCX's libraries handle SIGSEGV, SIGBUS, SIGILL and SIGFPE, and patch mmap, munmap
 * and brk in libc, unless environment variables disable that. Late loading allows us to set these
 * variables first. A program that runs as one rank, or over another transport, needs no UCX.
 */
#ifndef NET_UCP_API_H
#define NET_UCP_API_H

#include <stdbool.h>
#include <ucp/api/ucp.h>

/* clang-format off */
#define UCP_FUNCTIONS(X) \
	X(ucp_config_read) \
	X(ucp_config_release) \
	X(ucp_init_version) \
	X(ucp_cleanup) \
	X(ucp_worker_create) \
	X(ucp_worker_destroy) \
	X(ucp_worker_get_address) \
	X(ucp_worker_release_address) \
	X(ucp_worker_get_efd) \
	X(ucp_worker_arm) \
	X(ucp_worker_signal) \
	X(ucp_worker_progress) \
	X(ucp_worker_flush_nbx) \
	X(ucp_worker_set_am_recv_handler) \
	X(ucp_ep_create) \
	X(ucp_ep_close_nbx) \
	X(ucp_am_send_nbx) \
	X(ucp_am_recv_data_nbx) \
	X(ucp_am_data_release) \
	X(ucp_request_check_status) \
	X(ucp_request_free) \
	X(ucs_status_string)
/* clang-format on */

struct ucp_api {
#define X(name) __typeof__(&name) name;
	UCP_FUNCTIONS(X)
#undef X
};

/* Load UCX, once per process, after ucp_api_settings_put(). *api stays valid. -ENODEV: not
 * installed. */
int ucp_api_load(const struct ucp_api **api);

/* UCX reads its settings when it is loaded and when contexts and workers are created. Around these
 * calls, put our settings into the environment unless the user set them, and take them out again.
 * No other thread may use the environment. put: true if the transports are ours. */
bool ucp_api_settings_put(void);
void ucp_api_settings_take(void);

#endif
