// SPDX-License-Identifier: BSD-2-Clause
/*
 * ucx.c - the transport over UCX active messages: shared memory on one host, TCP between hosts.
 *
 * A message is the 32-byte header of an active message; a block is the data after it. This file:
 * creation, connection, sleep, end. Threads and locks: ucx.h.
 */
#include "net/ucx/ucx.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>

#include "net/redirect.h"
#include "net/ucx/msg.h"
#include "net/ucx/peer.h"
#include "util/clock.h"
#include "util/log.h"

#define CLOSE_MS 2000       /* to send the rest */
#define CLOSE_BROKEN_MS 200 /* the same, if some of it may be for a lost peer */
/* refused attempts to sleep without progress, before polling slows down */
#define BUSY_ARMS 64
#define BUSY_MAX_US 1000
/* UCX aborts the process if it gets no descriptor: it needs about 20, and two per peer while both
 * connect by TCP. Bells need 3, and one per peer. */
#define DESCRIPTORS(ranks) (36u + 3u * (ranks))
#define SHM "/dev/shm"
#define SHM_KIB 1024u /* 0.7 MiB of buffers (ucp_api.c), and UCX rounds up */

/* ---- sleeping ------------------------------------------------------------------------------- */

static int ucx_fd(struct net *n)
{
	return n->fd;
}

/*
 * UCX refuses to sleep while a message waits for room in a peer's shared-memory queue, because
 * nothing would wake it. If a peer is stopped, or dead with its queue full, polling would never
 * end. Without progress, pause a little instead.
 */
static void ucx_rest(unsigned int times)
{
	unsigned int us = 50u << (times - BUSY_ARMS < 5 ? times - BUSY_ARMS : 5);
	struct timespec t = { .tv_nsec = 1000L * (us < BUSY_MAX_US ? us : BUSY_MAX_US) };

	nanosleep(&t, NULL);
}

/* May this rank sleep without UCX being armed? Under the lock. */
static bool rung_for_all(const struct net *n)
{
	return n->ours && !n->sends && !n->recvs && bell_is_rung(&n->bell);
}

/* Set the bell, then look for messages. Under the lock. */
static ucs_status_t set_bell(struct net *n, enum bell_when when)
{
	bell_set(&n->bell, when);
	if (!ucx_progress(n, 1) && !n->head && !n->reap && rung_for_all(n))
		return UCS_OK;
	n->idle_busy = 0;
	bell_clear(&n->bell);
	return UCS_ERR_BUSY;
}

static int ucx_arm_for(struct net *n, enum bell_when when)
{
	ucs_status_t status = UCS_ERR_BUSY;
	unsigned int times = 0;
	bool bell;

	pthread_mutex_lock(&n->lock);
	bell = rung_for_all(n);
	if (!bell && when != BELL_ALL) {
		pthread_mutex_unlock(&n->lock);
		return -ENOTSUP;
	}
	__atomic_store_n(&n->bell.asleep, bell, __ATOMIC_SEQ_CST);
	if (!n->head && !n->reap)
		status = bell ? set_bell(n, when) : n->ucp->ucp_worker_arm(n->worker);
	if (status == UCS_OK) {
		n->armed = bell ? ARMED_BELL : ARMED_UCX;
		n->idle_busy = 0;
		ucx_count(&n->count.arms, 1);
	} else if (bell) {
		__atomic_store_n(&n->bell.asleep, 0, __ATOMIC_SEQ_CST);
	} else if (!n->head && !n->reap) {
		times = ++n->idle_busy;
	}
	pthread_mutex_unlock(&n->lock);
	if (times >= BUSY_ARMS)
		ucx_rest(times);
	return status == UCS_OK ? bell : status == UCS_ERR_BUSY ? -EBUSY : -EIO;
}

static int ucx_arm(struct net *n)
{
	return ucx_arm_for(n, BELL_ALL);
}

static int ucx_doze(struct net *n)
{
	return ucx_arm_for(n, BELL_URGENT);
}

static int ucx_bell(struct net *n)
{
	return n->bell.in;
}

/* The last thread stops polling, and one sleeps that nobody has woken meanwhile. */
static int ucx_stop_polling(struct net *n)
{
	int err = 0;

	pthread_mutex_lock(&n->lock);
	if (n->armed == ARMED_BELL && !rung_for_all(n))
		ucx_kick(n, 1);
	else if (n->armed == ARMED_BELL && (n->head || set_bell(n, BELL_ALL) != UCS_OK))
		err = -EBUSY;
	pthread_mutex_unlock(&n->lock);
	return err;
}

static int ucx_wait_step(struct net *n, enum net_wait_step next)
{
	if (next == NET_WAIT_BEGIN || next == NET_WAIT_POLL) {
		bell_poll_begin(&n->bell);
		return 0;
	}
	if (bell_poll_end(&n->bell))
		return ucx_stop_polling(n);
	return next == NET_WAIT_SLEEP && !bell_is_rung(&n->bell) ? ucx_arm(n) : 0;
}

/* ---- the rest ------------------------------------------------------------------------------- */

static int ucx_connect(struct net *n, uint16_t rank, const void *address, size_t size)
{
	struct ucx_blob b;
	struct peer *p;
	void *copy;
	int err = 0;

	if (rank >= n->cfg.size || ucx_blob_read(address, size, &b))
		return -EINVAL;
	if (rank == n->cfg.rank)
		return 0;
	copy = malloc(b.size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, (const char *)address + sizeof(b), b.size);
	p = &n->peers[rank];
	pthread_mutex_lock(&n->lock);
	if (p->address || p->state != PEER_NONE) {
		err = -EEXIST;
	} else {
		p->address = copy;
		p->state = PEER_KNOWN;
		n->bell.peers++;
		if (n->ours && n->cfg.same_host && n->cfg.same_host(n->cfg.arg, rank))
			bell_join(&p->rope, &b);
	}
	pthread_mutex_unlock(&n->lock);
	if (err)
		free(copy);
	return err;
}

static void ucx_drop(struct net *n, uint16_t rank)
{
	struct item *it, **at = &n->head;
	struct peer *p = &n->peers[rank];

	if (rank >= n->cfg.size)
		return;
	pthread_mutex_lock(&n->lock);
	p->state = PEER_DROPPED;
	while ((it = *at)) {
		if (it->rank == rank) {
			*at = it->next;
			item_put(n, it);
		} else {
			at = &it->next;
		}
	}
	n->tail = at;
	peer_close(n, p);
	pthread_mutex_unlock(&n->lock);
}

static void ucx_counters(struct net *n, struct net_counters *out)
{
	const uint64_t *from = (const uint64_t *)&n->count;
	uint64_t *to = (uint64_t *)out;
	size_t i;

	for (i = 0; i < sizeof(*out) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static unsigned int ucx_lanes(struct net *n, struct net_lane *out, unsigned int max)
{
	if (max)
		*out = (struct net_lane){
			.name = "all classes",
			.connections = __atomic_load_n(&n->lane.connections, __ATOMIC_RELAXED),
			.messages = __atomic_load_n(&n->lane.messages, __ATOMIC_RELAXED),
			.bytes = __atomic_load_n(&n->lane.bytes, __ATOMIC_RELAXED),
		};
	return 1;
}

/* Make progress until everything is sent, but only for a while: messages to a dead peer remain. */
static void ucx_finish_sending(struct net *n)
{
	const ucp_request_param_t none = { 0 };
	const uint64_t until = clock_ms() + (n->broken ? CLOSE_BROKEN_MS : CLOSE_MS);
	ucs_status_ptr_t req = NULL;

	do {
		while (n->ucp->ucp_worker_progress(n->worker))
			;
		if (n->reap)
			peers_reap(n);
		if (!n->sends && !req) {
			req = n->ucp->ucp_worker_flush_nbx(n->worker, &none);
			if (!UCS_PTR_IS_PTR(req))
				return;
		}
		if (req && n->ucp->ucp_request_check_status(req) != UCS_INPROGRESS)
			break;
	} while (clock_ms() < until);
	if (req)
		n->ucp->ucp_request_free(req);
}

static void ucx_close(struct net *n)
{
	struct chunk *c;
	struct item *it;
	unsigned int i;

	pthread_mutex_lock(&n->lock); /* no other thread is left; for thread checkers */
	ucx_finish_sending(n);
	for (i = 0; i < n->cfg.size; i++)
		n->peers[i].state = PEER_DROPPED;
	for (i = 0; i < n->cfg.size; i++)
		peer_close(n, &n->peers[i]);
	while ((it = ucx_inbox_take(n)))
		item_put(n, it);
	while (n->ucp->ucp_worker_progress(n->worker))
		;
	n->ucp->ucp_worker_destroy(n->worker);
	n->ucp->ucp_cleanup(n->context);
	while ((c = n->chunks)) {
		n->chunks = c->next;
		own_free(c);
	}
	for (i = 0; i < n->cfg.size; i++) {
		free(n->peers[i].address);
		bell_leave(&n->peers[i].rope);
	}
	bell_close(&n->bell);
	pthread_mutex_unlock(&n->lock);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

/* ---- opening -------------------------------------------------------------------------------- */

static int no_descriptors(const struct net *n)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	log_line(
		"out of file descriptors: UCX may need %u more, the limit is %llu; raise it with ulimit -n",
		DESCRIPTORS(n->cfg.size), (unsigned long long)limit.rlim_cur);
	return -EMFILE;
}

/* UCX's shared memory is in files of /dev/shm. True: printed that they have no room. */
static bool no_shm(void)
{
	struct statvfs st;
	unsigned long left, all;

	if (statvfs(SHM, &st))
		return false;
	left = (unsigned long)st.f_bavail * st.f_frsize >> 10;
	all = (unsigned long)st.f_blocks * st.f_frsize >> 10;
	if (left >= SHM_KIB)
		return false;
	log_line(
		SHM
		" has %lu KiB, of which %lu are free, and each rank of a host needs about %u there to talk to ranks that it shares "
		"no memory with; enlarge it (mount -o remount,size=64M " SHM
		"; in containers --shm-size), or set UCX_TLS=tcp",
		all, left, SHM_KIB);
	return true;
}

/*
 * Does UCX_TLS select that shared memory? It is "all", or a list of transports and of names for
 * several; after ^, all that are not in the list. A backslash names that transport, not several.
 */
static bool chooses_shm(const char *tls)
{
	static const char *const names[] = { "posix", "\\posix", "mm", "sm", "shm", "all" };
	const bool others = *tls == '^';
	size_t i, length;

	for (tls += others; *tls; tls += strspn(tls, ",")) {
		length = strcspn(tls, ",:");
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (length == strlen(names[i]) && !strncmp(tls, names[i], length))
				return !others;
		tls += strcspn(tls, ",");
	}
	return others;
}

static int ucx_explain(struct net *n, ucs_status_t status, const char *what)
{
	const char *tls = getenv("UCX_TLS");

	if (out_of_descriptors(1))
		return no_descriptors(n);
	if ((!tls || chooses_shm(tls)) && no_shm())
		return -ENOMEM;
	log_line(
		"UCX: %s: %s (UCX_TLS=%s); try UCX_LOG_LEVEL=info, and ucx_info -d for what there is",
		what, n->ucp->ucs_status_string(status), tls ? tls : "");
	return status == UCS_ERR_NO_MEMORY ? -ENOMEM : -ENODEV;
}

static int worker_open(struct net *n)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
		.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
		.name = "libdsm",
	};
	const ucp_worker_params_t worker = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};
	const ucp_am_handler_param_t am = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = UCX_AM_ID,
		.cb = ucx_received,
		.arg = n,
	};
	ucp_config_t *config;
	ucs_status_t status;

	if (out_of_descriptors(DESCRIPTORS(n->cfg.size)))
		return no_descriptors(n);
	status = n->ucp->ucp_config_read(NULL, NULL, &config);
	if (status != UCS_OK)
		return ucx_explain(n, status, "settings");
	status = n->ucp->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config,
					  &n->context);
	n->ucp->ucp_config_release(config);
	if (status != UCS_OK)
		return ucx_explain(n, status, "no usable transport");
	redirect_malloc(); /* it has loaded its modules */
	status = n->ucp->ucp_worker_create(n->context, &worker, &n->worker);
	if (status == UCS_OK) {
		status = n->ucp->ucp_worker_get_efd(n->worker, &n->fd);
		if (status == UCS_OK)
			status = n->ucp->ucp_worker_set_am_recv_handler(n->worker, &am);
		if (status == UCS_OK)
			return 0;
		n->ucp->ucp_worker_destroy(n->worker);
	}
	n->ucp->ucp_cleanup(n->context);
	return ucx_explain(n, status, "worker");
}

static int worker_address(struct net *n, void *address, size_t *size)
{
	struct ucx_blob b = { .magic = UCX_BLOB_MAGIC };
	ucp_address_t *a;
	ucs_status_t status;
	size_t length;

	status = n->ucp->ucp_worker_get_address(n->worker, &a, &length);
	if (status != UCS_OK)
		return ucx_explain(n, status, "address");
	if (length <= NET_ADDRESS_MAX - sizeof(b)) {
		if (n->ours && n->cfg.same_host)
			bell_open(&n->bell, &b);
		b.size = (uint32_t)length;
		memcpy(address, &b, sizeof(b));
		memcpy((char *)address + sizeof(b), a, length);
		*size = sizeof(b) + length;
	}
	n->ucp->ucp_worker_release_address(n->worker, a);
	if (length <= NET_ADDRESS_MAX - sizeof(b))
		return 0;
	log_line("UCX: an address of %zu bytes is too long; name fewer devices in UCX_NET_DEVICES",
		 length);
	return -ENODEV;
}

static int ucx_open(const struct net_config *cfg, struct net **out, void *address, size_t *size)
{
	struct net *n = calloc(1, sizeof(*n) + cfg->size * sizeof(n->peers[0]));
	sigset_t all, old;
	unsigned int i;
	int err;

	if (!n)
		return -ENOMEM;
	n->cfg = *cfg;
	n->tail = &n->head;
	pthread_mutex_init(&n->lock, NULL);
	n->bell = (struct bell){ .memory = -1, .in = -1, .out = -1 };
	for (i = 0; i < cfg->size; i++) {
		n->peers[i].net = n;
		n->peers[i].rope.out = -1;
	}
	n->ours = ucp_api_settings_put();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* for UCX's own thread */
	err = ucp_api_load(&n->ucp);
	if (!err)
		err = worker_open(n);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	ucp_api_settings_take();
	if (!err) {
		err = worker_address(n, address, size);
		if (!err) {
			*out = n;
			return 0;
		}
		bell_close(&n->bell);
		n->ucp->ucp_worker_destroy(n->worker);
		n->ucp->ucp_cleanup(n->context);
	}
	pthread_mutex_destroy(&n->lock);
	free(n);
	return err;
}

const struct net_ops net_ucx = {
	.name = "ucx",
	.open = ucx_open,
	.close = ucx_close,
	.connect = ucx_connect,
	.send = ucx_send,
	.poll = ucx_poll,
	.fd = ucx_fd,
	.arm = ucx_arm,
	.doze = ucx_doze,
	.bell = ucx_bell,
	.wait_step = ucx_wait_step,
	.drop = ucx_drop,
	.counters = ucx_counters,
	.lanes = ucx_lanes,
	.bundle = WIRE_BUNDLE_MAX,
	.bundles_data = true,
};
