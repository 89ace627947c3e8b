/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share_verbs.h - the verbs functions that librshare and net/verbs call, for queue pairs within
 * this process: they replace those of libibverbs. Sends wait for the receive queue of the other
 * side, as with RNR retries; work requests of a queue pair complete in order. One lock guards all.
 * fake_breaks breaks queue pairs, fake_down keeps them from connecting, fake_deaf loses datagrams,
 * fake_hold() delays posts, fake_refuse() makes a function fail. A thread that has set
 * fake_no_handles must not make address handles. Real devices are tested in guests
 * (tests/share/run, test_net_verbs.c).
 */
#ifndef UNIT_SHARE_VERBS_H
#define UNIT_SHARE_VERBS_H

#include <unistd.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FAKE_QUEUE 8192u
#define FAKE_QPS 256u
#define FAKE_MRS 2048u
#define FAKE_KEYS 16u /* between two keys: those between are none */
#define FAKE_SGES 8   /* of a work request, at most */
#define FAKE_FIRST 2u /* number of the first queue pair: programs never have 0 and 1 */

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc wc[FAKE_QUEUE];
	unsigned int head, tail, armed; /* 2: for solicited completions, and errors */
};

struct fake_srq {
	struct ibv_srq srq;
	struct {
		uint64_t wr_id;
		struct ibv_sge sge;
	} recv[FAKE_QUEUE];
	unsigned int head, tail;
};

struct fake_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[FAKE_SGES];
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_srq *own; /* queue for datagrams */
	uint32_t dest, sges;
	int connected, failed;
	struct fake_wr send[FAKE_QUEUE / 8];
	unsigned int head, tail;
};

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_qp *fake_qps[FAKE_QPS];
static struct fake_mr {
	struct ibv_mr mr;
	int access;
} * fake_mrs[FAKE_MRS]; /* by rkey / FAKE_KEYS */
static struct ibv_device fake_device[] = { { .name = "fake0" }, { .name = "fake1" } };
static int fake_devices = 1, fake_vectors = 1; /* number of devices, and of vectors of each */
static unsigned int fake_live;                 /* existing objects */
/* every fake_breaks-th work request breaks its queue pair; 0: none */
static unsigned int fake_breaks, fake_count;
static int fake_sges = FAKE_SGES, fake_sges_rd; /* of the device */
static int fake_down;                           /* no queue pair can be connected */
static int fake_deaf;                           /* no datagram arrives */
static int fake_held;                           /* posts are not executed */
/* reads posted; how many may still be executed */
static unsigned int fake_reads, fake_reads_max = UINT_MAX;
/* making an address handle waits, or fails */
static int fake_handles_wait, fake_handles_fail;
static unsigned int fake_begun, fake_handles; /* address handles begun and made */
static __thread int fake_no_handles;
static unsigned int fake_starved; /* sends that wait for a receive */

/* Functions that a test can make fail. */
enum fake_call {
	FAKE_PD,
	FAKE_CHANNEL,
	FAKE_CQ,
	FAKE_MR,
	FAKE_SRQ,
	FAKE_QP,
	FAKE_MODIFY,
	FAKE_SEND,
	FAKE_RECV, /* posts a chain up to the refused request */
	FAKE_CALLS
};

static struct {
	int error; /* errno */
	int after, times;
} fake_refusal[FAKE_CALLS];

/* After so many successful calls, that many fail with this errno. */
static inline void fake_refuse(enum fake_call call, int error, int after, int times)
{
	__atomic_store_n(&fake_refusal[call].times, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&fake_refusal[call].error, error, __ATOMIC_SEQ_CST);
	__atomic_store_n(&fake_refusal[call].after, after, __ATOMIC_SEQ_CST);
	__atomic_store_n(&fake_refusal[call].times, times, __ATOMIC_SEQ_CST);
}

/* The errno with which this call must fail, or 0. */
static int fake_fails(enum fake_call call)
{
	if (__atomic_load_n(&fake_refusal[call].times, __ATOMIC_SEQ_CST) <= 0 ||
	    __atomic_fetch_sub(&fake_refusal[call].after, 1, __ATOMIC_SEQ_CST) > 0)
		return 0;
	__atomic_fetch_sub(&fake_refusal[call].times, 1, __ATOMIC_SEQ_CST);
	return errno = __atomic_load_n(&fake_refusal[call].error, __ATOMIC_SEQ_CST);
}

static void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc, int solicited)
{
	struct fake_cq *f = (struct fake_cq *)cq;
	const uint64_t one = 1;

	if (f->tail - f->head == FAKE_QUEUE)
		abort();
	f->wc[f->tail++ % FAKE_QUEUE] = *wc;
	if (!f->armed || (f->armed == 2 && !solicited && !wc->status))
		return;
	f->armed = 0;
	if (write(cq->channel->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static size_t fake_gather(char *to, const struct fake_wr *w)
{
	size_t n = 0;

	for (int i = 0; i < w->wr.num_sge; i++) {
		memcpy(to + n, (void *)(uintptr_t)w->sge[i].addr, w->sge[i].length);
		n += w->sge[i].length;
	}
	return n;
}

static void fake_scatter(const struct fake_wr *w, const char *from)
{
	for (int i = 0; i < w->wr.num_sge; i++) {
		memcpy((void *)(uintptr_t)w->sge[i].addr, from, w->sge[i].length);
		from += w->sge[i].length;
	}
}

/* Store into the next receive buffer, after `skip` bytes. 0: there is no buffer. */
static int fake_receive(struct fake_srq *s, size_t skip, const struct fake_wr *w, struct ibv_wc *wc)
{
	const struct ibv_sge *to = &s->recv[s->head % FAKE_QUEUE].sge;

	if (s->head == s->tail) {
		__atomic_fetch_add(&fake_starved, 1, __ATOMIC_RELAXED);
		return 0;
	}
	wc->wr_id = s->recv[s->head++ % FAKE_QUEUE].wr_id;
	wc->byte_len = (uint32_t)(skip + fake_gather((char *)(uintptr_t)to->addr + skip, w));
	if (wc->byte_len > to->length)
		abort();
	return 1;
}

/* Drop what has no destination. */
static void fake_datagram(struct fake_qp *from, const struct fake_wr *w)
{
	struct fake_qp *to = fake_qps[w->wr.wr.ud.remote_qpn % FAKE_QPS];
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .src_qp = from->qp.qp_num };

	if (!__atomic_load_n(&fake_deaf, __ATOMIC_ACQUIRE) && to && to->own && to->connected &&
	    fake_receive(to->own, 40, w, &wc)) {
		wc.qp_num = to->qp.qp_num;
		fake_complete(to->qp.recv_cq, &wc, 0);
	}
}

/* A device refuses what the key does not cover. */
static int fake_is_covered(const struct fake_wr *w, int access)
{
	const uint32_t rkey = w->wr.wr.rdma.rkey;
	const struct fake_mr *m = rkey / FAKE_KEYS < FAKE_MRS ? fake_mrs[rkey / FAKE_KEYS] : NULL;
	const uint64_t at = w->wr.wr.rdma.remote_addr;
	uint64_t bytes = 0, offset;

	for (int i = 0; i < w->wr.num_sge; i++)
		bytes += w->sge[i].length;
	if (!m || m->mr.rkey != rkey || !(m->access & access))
		return 0;
	offset = at - (uintptr_t)m->mr.addr;
	return offset <= m->mr.length && bytes <= m->mr.length - offset;
}

/* 0: it waits for a receive. -1: it is refused. */
static int fake_deliver(struct fake_qp *to, const struct fake_wr *w)
{
	struct fake_srq *s = (struct fake_srq *)to->qp.srq;
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .qp_num = to->qp.qp_num };
	const int solicited = !!(w->wr.send_flags & IBV_SEND_SOLICITED);

	if ((w->wr.opcode == IBV_WR_RDMA_WRITE && !fake_is_covered(w, IBV_ACCESS_REMOTE_WRITE)) ||
	    (w->wr.opcode == IBV_WR_RDMA_READ && !fake_is_covered(w, IBV_ACCESS_REMOTE_READ)))
		return -1;
	if (w->wr.opcode == IBV_WR_RDMA_WRITE) {
		fake_gather((char *)(uintptr_t)w->wr.wr.rdma.remote_addr, w);
	} else if (w->wr.opcode == IBV_WR_RDMA_READ) {
		fake_scatter(w, (const char *)(uintptr_t)w->wr.wr.rdma.remote_addr);
	} else if (w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		if (s->head == s->tail)
			return 0;
		wc.wr_id = s->recv[s->head++ % FAKE_QUEUE].wr_id;
		wc.byte_len =
			(uint32_t)fake_gather((char *)(uintptr_t)w->wr.wr.rdma.remote_addr, w);
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = w->wr.imm_data;
		fake_complete(to->qp.recv_cq, &wc, solicited);
	} else {
		if (!fake_receive(s, 0, w, &wc))
			return 0;
		fake_complete(to->qp.recv_cq, &wc, solicited);
	}
	return 1;
}

/*
 * The status of a work request; -1: it waits. Every second request that breaks its queue pair still
 * arrives, unless all break.
 */
static int fake_execute(struct fake_qp *q, const struct fake_wr *w)
{
	struct fake_qp *to = fake_qps[q->dest % FAKE_QPS];

	if (q->failed)
		return IBV_WC_WR_FLUSH_ERR;
	if (q->own) {
		fake_datagram(q, w);
		return IBV_WC_SUCCESS;
	}
	if (to && to->qp.qp_num == q->dest) {
		const int breaks = fake_breaks && !((fake_count + 1) % fake_breaks);
		const int arrives = !breaks || (fake_breaks > 1 && fake_count / fake_breaks % 2);

		const int delivered =
			to->connected && arrives ? fake_deliver(to, w) : to->connected;

		if (!delivered)
			return -1;
		if (delivered < 0) { /* both ends break */
			q->failed = to->failed = 1;
			return IBV_WC_REM_ACCESS_ERR;
		}
		fake_count++;
		if (!breaks)
			return IBV_WC_SUCCESS;
	}
	q->failed = 1;
	return IBV_WC_RETRY_EXC_ERR;
}

static void fake_progress(struct fake_qp *q)
{
	while (q && !fake_held && (q->connected || q->failed) && q->head != q->tail) {
		const struct fake_wr *w = &q->send[q->head % (FAKE_QUEUE / 8)];
		struct ibv_wc wc = { .wr_id = w->wr.wr_id, .qp_num = q->qp.qp_num };
		const int read = w->wr.opcode == IBV_WR_RDMA_READ;
		const int status = read && !fake_reads_max ? -1 : fake_execute(q, w);

		if (status < 0)
			return;
		fake_reads_max -= read && fake_reads_max != UINT_MAX;
		wc.status = (enum ibv_wc_status)status;
		if (w->wr.send_flags & IBV_SEND_SIGNALED || wc.status)
			fake_complete(q->qp.send_cq, &wc, 0);
		q->head++;
	}
}

static inline void fake_hold(int held, unsigned int reads_max)
{
	pthread_mutex_lock(&fake_lock);
	fake_held = held;
	fake_reads_max = reads_max;
	for (unsigned int i = 0; i < FAKE_QPS; i++)
		fake_progress(fake_qps[i]);
	pthread_mutex_unlock(&fake_lock);
}

/* As a device that sends during the post: it is done with long ones, but returns so much later. */
static unsigned int fake_slow_us;

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	unsigned int slow = 0;
	int err = 0;

	pthread_mutex_lock(&fake_lock);
	for (; wr && !(err = fake_fails(FAKE_SEND)); wr = wr->next) {
		struct fake_wr *w = &q->send[q->tail++ % (FAKE_QUEUE / 8)];

		if (wr->sg_list[wr->num_sge - 1].length > 8192)
			slow = __atomic_load_n(&fake_slow_us, __ATOMIC_RELAXED);

		if ((uint32_t)wr->num_sge > q->sges)
			abort();
		w->wr = *wr;
		fake_reads += wr->opcode == IBV_WR_RDMA_READ;
		memcpy(w->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(w->sge[0]));
	}
	*bad = wr;
	fake_progress(q);
	pthread_mutex_unlock(&fake_lock);
	if (slow)
		usleep(slow);
	return err;
}

static int fake_post_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_srq *s = (struct fake_srq *)srq;
	int err = 0;

	pthread_mutex_lock(&fake_lock);
	for (; wr && !(err = fake_fails(FAKE_RECV)); wr = wr->next) {
		if (s->tail - s->head == FAKE_QUEUE)
			abort();
		s->recv[s->tail % FAKE_QUEUE].wr_id = wr->wr_id;
		s->recv[s->tail++ % FAKE_QUEUE].sge = wr->sg_list[0];
	}
	*bad = wr;
	for (unsigned int i = 0; i < FAKE_QPS; i++)
		fake_progress(fake_qps[i]);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

static int fake_post_own_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return fake_post_recv(&((struct fake_qp *)qp)->own->srq, wr, bad);
}

static int fake_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake_cq *f = (struct fake_cq *)cq;
	int got = 0;

	pthread_mutex_lock(&fake_lock);
	while (got < n && f->head != f->tail)
		wc[got++] = f->wc[f->head++ % FAKE_QUEUE];
	pthread_mutex_unlock(&fake_lock);
	return got;
}

static int fake_arm(struct ibv_cq *cq, int solicited)
{
	struct fake_cq *f = (struct fake_cq *)cq;

	pthread_mutex_lock(&fake_lock);
	if (f->armed != 1)
		f->armed = solicited ? 2 : 1;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

/* ---- objects --------------------------------------------------------------------------------- */

static void *fake_new(size_t size)
{
	__atomic_fetch_add(&fake_live, 1, __ATOMIC_RELAXED);
	return calloc(1, size);
}

static int fake_free(void *p)
{
	__atomic_fetch_sub(&fake_live, 1, __ATOMIC_RELAXED);
	free(p);
	return 0;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc((size_t)fake_devices + 1, sizeof(*list));
	int i;

	for (i = 0; i < fake_devices; i++)
		list[i] = &fake_device[i];
	if (n)
		*n = fake_devices;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct ibv_context *c = fake_new(sizeof(*c));

	c->device = d;
	c->num_comp_vectors = fake_vectors;
	c->async_fd = eventfd(0, EFD_CLOEXEC);
	c->ops.post_send = fake_post_send;
	c->ops.post_srq_recv = fake_post_recv;
	c->ops.post_recv = fake_post_own_recv;
	c->ops.poll_cq = fake_poll;
	c->ops.req_notify_cq = fake_arm;
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	close(c->async_fd);
	return fake_free(c);
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	(void)c;
	memset(a, 0, sizeof(*a));
	a->max_cqe = a->max_srq_wr = FAKE_QUEUE;
	a->max_qp_rd_atom = 16;
	a->max_sge = __atomic_load_n(&fake_sges, __ATOMIC_RELAXED);
	a->max_sge_rd = __atomic_load_n(&fake_sges_rd, __ATOMIC_RELAXED);
	a->phys_port_cnt = 1;
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *a);
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)compat;

	(void)c;
	a->state = port == 1 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a->active_mtu = IBV_MTU_4096;
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e, size_t n,
			     uint32_t flags, size_t size)
{
	(void)c;
	(void)n;
	(void)flags;
	memset(e, 0, size);
	e->port_num = 1;
	memcpy(e->gid.raw, (uint8_t[16]){ [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 },
	       sizeof(e->gid.raw));
	e->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 1;
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t i, struct ibv_gid_entry *e,
		      uint32_t flags, size_t size)
{
	(void)port;
	(void)i;
	return _ibv_query_gid_table(c, e, 1, flags, size) == 1 ? 0 : EINVAL;
}

/* The device has no events. */
int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *e)
{
	(void)c;
	(void)e;
	return -1;
}

void ibv_ack_async_event(struct ibv_async_event *e)
{
	(void)e;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *p = fake_fails(FAKE_PD) ? NULL : fake_new(sizeof(*p));

	if (!p)
		return NULL;
	p->context = c;
	return p;
}

int ibv_dealloc_pd(struct ibv_pd *p)
{
	return fake_free(p);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t n, int access)
{
	struct fake_mr *m = fake_fails(FAKE_MR) ? NULL : fake_new(sizeof(*m));
	static uint32_t next; /* keys come again late */

	if (!m)
		return NULL;
	pthread_mutex_lock(&fake_lock);
	do
		next++;
	while (fake_mrs[next % FAKE_MRS]);
	fake_mrs[next % FAKE_MRS] = m;
	m->access = access;
	m->mr = (struct ibv_mr){ .context = pd->context,
				 .pd = pd,
				 .addr = at,
				 .length = n,
				 .lkey = 1,
				 .rkey = next % FAKE_MRS * FAKE_KEYS };
	pthread_mutex_unlock(&fake_lock);
	return &m->mr;
}

#undef ibv_reg_mr_iova2
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t n, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, at, n, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *m)
{
	pthread_mutex_lock(&fake_lock);
	fake_mrs[m->rkey / FAKE_KEYS] = NULL;
	pthread_mutex_unlock(&fake_lock);
	return fake_free(m);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *ch = fake_fails(FAKE_CHANNEL) ? NULL : fake_new(sizeof(*ch));

	if (!ch)
		return NULL;
	ch->context = c;
	ch->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	return ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	close(ch->fd);
	return fake_free(ch);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context,
			     struct ibv_comp_channel *ch, int vector)
{
	struct fake_cq *f = fake_fails(FAKE_CQ) ? NULL : fake_new(sizeof(*f));

	(void)vector;
	if (!f)
		return NULL;
	f->cq = (struct ibv_cq){ .context = c, .channel = ch, .cq_context = context, .cqe = cqe };
	ch->refcnt = 0;
	return &f->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return fake_free(cq);
}

static struct ibv_cq *fake_event_cq; /* only its address is used */

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context)
{
	uint64_t n;

	*cq = fake_event_cq;
	*context = NULL;
	return read(ch->fd, &n, sizeof(n)) == sizeof(n) ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	(void)n;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	struct fake_srq *s = fake_fails(FAKE_SRQ) ? NULL : fake_new(sizeof(*s));

	(void)a;
	if (!s)
		return NULL;
	s->srq.context = pd->context;
	return &s->srq;
}

int ibv_destroy_srq(struct ibv_srq *s)
{
	return fake_free(s);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct fake_qp *q = fake_fails(FAKE_QP) ? NULL : fake_new(sizeof(*q));
	static uint32_t next = FAKE_FIRST - 1;

	if (!q)
		return NULL;
	q->qp = (struct ibv_qp){
		.context = pd->context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq
	};
	q->sges = a->cap.max_send_sge;
	q->own = a->qp_type == IBV_QPT_UD ? fake_new(sizeof(*q->own)) : NULL;
	pthread_mutex_lock(&fake_lock);
	do
		q->qp.qp_num = ++next;
	while (fake_qps[next % FAKE_QPS]);
	fake_qps[next % FAKE_QPS] = q;
	pthread_mutex_unlock(&fake_lock);
	return &q->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	const int err = fake_fails(FAKE_MODIFY);

	if (err)
		return err;
	pthread_mutex_lock(&fake_lock);
	if (a->qp_state == IBV_QPS_RTR && fake_down) {
		pthread_mutex_unlock(&fake_lock);
		return errno = ENETDOWN;
	}
	if (mask & IBV_QP_DEST_QPN)
		q->dest = a->dest_qp_num;
	q->connected = a->qp_state == IBV_QPS_RTS || a->qp_state == IBV_QPS_RTR;
	q->failed = a->qp_state == IBV_QPS_ERR;
	for (unsigned int i = 0; i < FAKE_QPS; i++)
		fake_progress(fake_qps[i]);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	pthread_mutex_lock(&fake_lock);
	fake_qps[qp->qp_num % FAKE_QPS] = NULL;
	pthread_mutex_unlock(&fake_lock);
	if (((struct fake_qp *)qp)->own)
		fake_free(((struct fake_qp *)qp)->own);
	return fake_free(qp);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	struct ibv_ah *ah;

	(void)a;
	if (fake_no_handles)
		abort();
	__atomic_fetch_add(&fake_begun, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&fake_handles_wait, __ATOMIC_ACQUIRE))
		usleep(100);
	if (__atomic_load_n(&fake_handles_fail, __ATOMIC_ACQUIRE)) {
		errno = EHOSTUNREACH;
		return NULL;
	}
	ah = fake_new(sizeof(*ah));
	ah->context = pd->context;
	ah->pd = pd;
	__atomic_fetch_add(&fake_handles, 1, __ATOMIC_RELAXED);
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return fake_free(ah);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status ? "failed" : "success";
}

#endif
