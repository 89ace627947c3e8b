// SPDX-License-Identifier: BSD-2-Clause
/*
 * wire.c - a peer that breaks the protocol. Rank 0 of a job of two is a context of dsm.ko whose threads fault and lock; rank 1 is this
 * program, by verbs from user space, which answers as a rank would, now and then, and sends everything else besides: frames with
 * a field changed, random ones, ones of another length, on the wrong queue pair, and writes with and without a key.
 *
 * Runs in a guest with the module loaded and a soft RDMA device. What must hold: a frame that is wrong in itself ends the
 * connection, and the process is told of the loss within seconds; whatever came, rank 0 ends when it is killed, and nothing of it
 * is left. The kernel's log is its caller's to read.
 */
#include "core/wire.h"
#include "tests/kmod/common.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* As kmod/conn.c writes it, and kmod/conn.h names what is not in core/wire.h. */
struct address {
	uint32_t magic, version;
	uint64_t key;
	uint16_t rank, size;
	uint16_t lid;
	uint8_t mtu, global;
	union ibv_gid gid;
	uint32_t qpn[][CLASS_MAX];
};
enum { KEY_WANTED = 0xf0, KEY = 0xf1 };

#define RECEIVES 256u
#define PACK 4u /* as kmod/conn.h has it: messages of one send of the coherence class */
#define SLOTS 256u

static struct peer {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[CLASS_MAX];
	struct memory {
		struct msg in[CLASS_MAX][RECEIVES][PACK];
		char out[1 << 16];
		char landing[2 << 20]; /* blocks that rank 0 sends, whatever 2 MiB they are of */
	} *memory;
	unsigned int posted;          /* sends not completed */
	bool broken;
	struct msg seen[16];          /* what rank 0 has sent */
	unsigned int nseen;
	uint32_t rkey;
	uint64_t at;
	uint32_t wanted[SLOTS];       /* blocks that were asked for */
	uint64_t random;
} p;

static struct shared {
	_Atomic int lost;             /* rank 0 was told that rank 1 is gone */
} *shared;

static unsigned long rounds, frames, answers, drops, wrong, writes, landed;

/* ---- rank 0 --------------------------------------------------------------------------------- */

struct worker {
	uint64_t random;
	int fd;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		if (pick(&w->random, 4)) {
			touch(JOB_BASE + pick(&w->random, pick(&w->random, 2) ? 64 : JOB_PAGES) * PAGE, pick(&w->random, 2));
		} else {
			struct dsm_ioc_call c = { .call = (uint16_t)pick(&w->random, 3), .home = (uint16_t)pick(&w->random, 2),
						  .value2 = (uint64_t)(1 + pick(&w->random, 5)) << 32, .object = pick(&w->random, 4),
						  .op = (uint8_t)(pick(&w->random, 4) ? 0 : 15) };

			ioctl(w->fd, DSM_IOC_CALL, &c);
		}
	}
	return NULL;
}

static void rank_process(struct job *j, uint64_t seed)
{
	struct dsm_ioc_lost l;
	static struct worker w[8];
	pthread_t thread;
	unsigned int i;
	int fd;

	catch_signals();
	fd = job_join(j, 0);
	if (fd < 0)
		_exit(3);
	for (i = 0; i < 8; i++) {
		w[i] = (struct worker){ .random = seed + i, .fd = fd };
		pthread_create(&thread, NULL, work, &w[i]);
	}
	for (;;) {
		struct pollfd f = { .fd = fd, .events = POLLIN };

		if (poll(&f, 1, 1000) == 1 && !ioctl(fd, DSM_IOC_LOST, &l) && l.rank == 1)
			atomic_store(&shared->lost, 1);
	}
}

/* ---- rank 1 --------------------------------------------------------------------------------- */

static bool fail(const char *what)
{
	printf("FAILED: %s (%s)\n", what, strerror(errno));
	return false;
}

static bool peer_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		return fail("there is no RDMA device");
	p.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	p.pd = p.ctx ? ibv_alloc_pd(p.ctx) : NULL;
	p.memory = mmap(NULL, sizeof(*p.memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p.mr = p.pd ? ibv_reg_mr(p.pd, p.memory, sizeof(*p.memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
	return p.mr ? true : fail("the RDMA device cannot be opened");
}

static void post_receive(unsigned int class, unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)p.memory->in[class][i], sizeof(p.memory->in[class][i]), p.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = class << 16 | i, .sg_list = &sge, .num_sge = 1 }, *bad;

	ibv_post_recv(p.qp[class], &wr, &bad);
}

static bool peer_begin(void)
{
	unsigned int c, i;

	p.cq = ibv_create_cq(p.ctx, CLASS_MAX * RECEIVES + 1024, NULL, NULL, 0);
	if (!p.cq)
		return fail("no completion queue");
	for (c = 0; c < CLASS_MAX; c++) {
		struct ibv_qp_init_attr init = { .send_cq = p.cq, .recv_cq = p.cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
						 .cap = { .max_send_wr = 128, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 } };
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

		p.qp[c] = ibv_create_qp(p.pd, &init);
		if (!p.qp[c] || ibv_modify_qp(p.qp[c], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
			return fail("no queue pair");
		for (i = 0; i < RECEIVES; i++)
			post_receive(c, i);
	}
	p.posted = p.nseen = 0;
	p.broken = false;
	p.rkey = 0;
	return true;
}

static void peer_end(void)
{
	unsigned int c;

	for (c = 0; c < CLASS_MAX; c++) {
		if (p.qp[c])
			ibv_destroy_qp(p.qp[c]);
		p.qp[c] = NULL;
	}
	if (p.cq)
		ibv_destroy_cq(p.cq);
	p.cq = NULL;
}

/* The index of the address that rank 0 has: it is of the same device. */
static int gid_index(const union ibv_gid *gid)
{
	struct ibv_gid_entry e;
	int i;

	for (i = 0; i < 64; i++)
		if (!ibv_query_gid_ex(p.ctx, 1, (uint32_t)i, &e, 0) && e.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&e.gid, gid, sizeof(*gid)))
			return i;
	return -1;
}

static bool peer_connect(const struct address *a)
{
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	int index = gid_index(&a->gid);
	unsigned int c;

	for (c = 0; c < CLASS_MAX; c++) {
		struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = a->mtu, .dest_qp_num = a->qpn[1][c], .max_dest_rd_atomic = 1,
					   .min_rnr_timer = 1,
					   .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = a->gid, .hop_limit = 64,
												.sgid_index = (uint8_t)index } } };

		if (index < 0 || ibv_modify_qp(p.qp[c], &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
		    ibv_modify_qp(p.qp[c], &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
			return fail("the queue pairs do not connect");
	}
	return true;
}

static void write_address(struct job *j)
{
	const struct address *theirs = (void *)j->address[0];
	struct address *a = (void *)j->address[1];
	unsigned int c;

	*a = *theirs;
	a->rank = 1;
	memset(a->qpn, 0, 2 * sizeof(a->qpn[0]));
	for (c = 0; c < CLASS_MAX; c++)
		a->qpn[0][c] = p.qp[c]->qp_num;
	j->address_size[1] = j->address_size[0];
}

/* ---- frames --------------------------------------------------------------------------------- */

static void post(unsigned int class, const void *data, uint32_t size, const struct ibv_send_wr *like)
{
	char *at = p.memory->out + frames % 16 * 4096;
	struct ibv_sge sge = { (uintptr_t)at, size, p.mr->lkey };
	struct ibv_send_wr wr = like ? *like : (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, *bad;

	if (data)
		memcpy(at, data, size);
	wr.wr_id = 1ull << 32;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	frames++;
	if (ibv_post_send(p.qp[class], &wr, &bad))
		p.broken = true;
	else
		p.posted++;
}

/* What a home and a peer in good order would say. */
static void answer(const struct msg *m)
{
	struct msg a = *m;

	a.src = 1;
	a.dst = 0;
	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
		a.type = MSG_GRANT;
		a.op = m->type == MSG_READ_REQ ? GRANT_READ : GRANT_WRITE;
		a.flags = MSGF_ZERO;
		a.home = 1;
		a.count = 0;
		break;
	case MSG_SYNC:
		a.type = MSG_REPLY;
		a.count = 0;
		break;
	case MSG_LOCK:
	case MSG_TRYLOCK:
		a.type = MSG_LOCKED;
		break;
	case MSG_INV:
		a.type = MSG_INV_ACK;
		break;
	case MSG_GRANT: /* to a request of ours */
		a.type = MSG_DONE;
		break;
	case KEY_WANTED:
		a.type = KEY;
		a.aux = p.mr->rkey;
		a.value = (uintptr_t)p.memory->landing;
		break;
	case KEY:
		p.rkey = m->aux;
		p.at = m->value;
		return;
	default:
		return;
	}
	answers++;
	post(m->type == MSG_SYNC || m->type == MSG_LOCK || m->type == MSG_TRYLOCK ? CLASS_SYNC : CLASS_COHERENCE, &a, sizeof(a), NULL);
}

static void look(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(p.cq, 1, &wc) == 1) {
		unsigned int class = (unsigned int)wc.wr_id >> 16, i = wc.wr_id & 0xffff;

		if (wc.status != IBV_WC_SUCCESS) {
			p.broken = true;
		} else if (wc.wr_id >> 32) {
			p.posted--;
		} else {
			unsigned int n = wc.wc_flags & IBV_WC_WITH_IMM ? 1 : wc.byte_len / sizeof(struct msg), k;
			struct msg m[PACK];

			memcpy(m, p.memory->in[class][i], sizeof(m));
			post_receive(class, i);
			if (wc.wc_flags & IBV_WC_WITH_IMM) {
				uint32_t imm = __builtin_bswap32(wc.imm_data);

				m[0] = (struct msg){ .version = WIRE_VERSION, .type = MSG_GRANT, .object = p.wanted[imm & 0xff], .req_rank = 1,
						     .req_slot = imm & 0xff, .home = imm >> 17 & 1023 };
				landed++;
			}
			for (k = 0; k < n; k++) {
				p.seen[p.nseen++ % 16] = m[k];
				if (pick(&p.random, 8))
					answer(&m[k]);
			}
		}
	}
}

static uint64_t odd_number(uint64_t *r)
{
	static const uint64_t odd[] = { 0, 1, 2, 127, 128, 255, 256, 257, 511, 512, 1023, 1024, 2047, 2048, 4095, 4096, 0xffff, 0x10000,
					0x7fffffff, 0x80000000, 0xffffffff, ~0ull };

	return pick(r, 2) ? odd[pick(r, sizeof(odd) / sizeof(odd[0]))] : pick(r, 2) ? 1ull << pick(r, 64) : next(r);
}

/* Whether a message of this type is for an object of synchronisation. */
static bool wire_class_sync(uint8_t type)
{
	return type >= MSG_LOCK && type <= MSG_DEPART;
}

static struct msg plausible(void)
{
	uint64_t *r = &p.random;
	unsigned int order = pick(r, 4) ? 0 : pick(r, 10);
	struct msg m = {
		.version = WIRE_VERSION, .type = (uint8_t)(1 + pick(r, MSG_TYPES - 1)), .src = 1, .dst = 0,
		.object = (uint32_t)((pick(r, JOB_PAGES) >> order << order) << 1 | 1u << order), .req_rank = (uint16_t)pick(r, 2),
		.req_slot = (uint16_t)pick(r, pick(r, 2) ? 8 : SLOTS), .op = (uint8_t)pick(r, 4), .flags = (uint8_t)pick(r, 16),
		.value = pick(r, 4),
	};

	if (!pick(r, 12))
		m.type = pick(r, 2) ? KEY : KEY_WANTED;
	if (p.nseen && !pick(r, 3)) {
		m = p.seen[pick(r, p.nseen < 16 ? p.nseen : 16)];
		m.src = 1;
		m.dst = 0;
		if (pick(r, 2))
			m.type = (uint8_t)(1 + pick(r, MSG_TYPES - 1));
	} else if (wire_class_sync(m.type)) {
		m.object = pick(r, 2) << 16 | pick(r, 8);
		m.op = (uint8_t)pick(r, 20);
	} else {
		m.home = (uint16_t)pick(r, 2);
		m.count = (int16_t)pick(r, 3);
	}
	return m;
}

/* Wrong in itself, whatever the state of rank 0: it must end the connection. */
static bool is_wrong(const struct msg *m)
{
	return m->src != 1 || (m->type != KEY && m->type != KEY_WANTED &&
			       (m->version != WIRE_VERSION || m->type >= MSG_TYPES || m->dst != 0 || m->req_rank > 1));
}

/* A write into the frames of rank 0, or beside them. */
static void write_block(void)
{
	uint64_t *r = &p.random;
	struct ibv_send_wr wr = { .opcode = pick(r, 4) ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE };
	uint32_t imm = pick(r, 3) ? 0x80000000u | pick(r, 4) << 27 | pick(r, 2) << 17 | pick(r, 2) << 8 | pick(r, SLOTS) : (uint32_t)next(r);

	writes++;
	wr.imm_data = __builtin_bswap32(imm);
	wr.wr.rdma.rkey = pick(r, 4) ? p.rkey : (uint32_t)next(r);
	wr.wr.rdma.remote_addr = p.at + (pick(r, 8) ? pick(r, 512) * PAGE : odd_number(r));
	post(CLASS_DATA, NULL, pick(r, 8) ? PAGE : pick(r, 4096), &wr);
}

/* What a rank may ask for at any time. */
static void ask(void)
{
	struct msg m = { .version = WIRE_VERSION, .type = pick(&p.random, 2) ? MSG_READ_REQ : MSG_WRITE_REQ, .src = 1,
			 .object = pick(&p.random, 64) << 1 | 1, .req_rank = 1, .req_slot = (uint16_t)pick(&p.random, SLOTS) };

	if (pick(&p.random, 4)) {
		p.wanted[m.req_slot] = m.object;
	} else {
		m.type = MSG_SYNC;
		m.op = 0; /* create */
		m.aux = 1 + pick(&p.random, 5);
		m.object = 0;
	}
	post(m.type == MSG_SYNC ? CLASS_SYNC : CLASS_COHERENCE, &m, sizeof(m), NULL);
}

/* One frame; true: it must end the connection. */
static bool send_something(void)
{
	uint64_t *r = &p.random;
	struct msg m = plausible();
	unsigned int class = pick(r, 8) ? (m.type == MSG_DATA ? CLASS_DATA : wire_class_sync(m.type) ? CLASS_SYNC : CLASS_COHERENCE) :
					 pick(r, CLASS_MAX);
	char bytes[4096];
	unsigned int i, size;

	switch (pick(r, 40)) {
	case 0: /* of another length */
		for (i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)next(r);
		memcpy(bytes, &m, sizeof(m));
		size = pick(r, 2) ? pick(r, 32) : 33 + pick(r, 2000);
		post(class, bytes, size, NULL);
		return true;
	case 1: /* random all over */
		for (i = 0; i < sizeof(m); i++)
			((char *)&m)[i] = (char)next(r);
		break;
	case 2: case 3: case 4: case 5: case 6: case 7: { /* a field changed */
		uint64_t v = odd_number(r);
		unsigned int n = 1u << pick(r, 4);

		memcpy((char *)&m + pick(r, sizeof(m) / n) * n, &v, n);
		break;
	}
	case 8: case 9: case 10:
		write_block();
		return false;
	case 11: case 12: case 13: { /* several at once; too many, or of a class that has no such, are wrong */
		struct msg all[PACK + 1];
		bool bad;

		size = 2 + pick(r, pick(r, 4) ? PACK - 1 : PACK);
		bad = size > PACK || class != CLASS_COHERENCE;
		for (i = 0; i < size; i++) {
			all[i] = i ? plausible() : m;
			bad |= is_wrong(&all[i]);
		}
		post(class, all, size * sizeof(m), NULL);
		return bad;
	}
	default:
		break;
	}
	post(class, &m, sizeof(m), NULL);
	return is_wrong(&m);
}

/* In order for a while, more or less, lest the first frame end all. */
static bool talk(unsigned int most)
{
	unsigned int calm = 1u << pick(&p.random, 8);
	bool must = false;
	unsigned int n = 0;
	double end;

	while (n++ < most && !must && !p.broken && !atomic_load(&shared->lost)) {
		look();
		if (p.posted > 64)
			continue;
		if (pick(&p.random, calm))
			ask();
		else
			must = send_something();
		if (!pick(&p.random, 4))
			usleep(pick(&p.random, 3000));
	}
	if (must && !p.broken) {
		wrong++;
		for (end = now_s() + patience(20); !atomic_load(&shared->lost) && now_s() < end; usleep(1000))
			look();
		if (!atomic_load(&shared->lost))
			return fail("a wrong frame did not end the connection");
	}
	drops += atomic_load(&shared->lost);
	return true;
}

static bool one_round(struct job *j)
{
	double end = now_s() + patience(60);
	bool ok = false;
	pid_t pid;

	job_set(j, 2, true);
	atomic_store(&shared->lost, 0);
	j->mode = pick(&p.random, 3);
	j->home = pick(&p.random, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
	fflush(stdout);
	pid = fork();
	if (!pid)
		rank_process(j, next(&p.random));
	while (!atomic_load(&j->come) && now_s() < end)
		usleep(1000);
	if (!atomic_load(&j->come) || !peer_begin()) {
		fail("rank 0 does not join");
		goto out;
	}
	write_address(j);
	if (!peer_connect((void *)j->address[0]))
		goto out;
	atomic_fetch_add(&j->ready, 1);
	atomic_fetch_add(&j->come, 1);
	while (atomic_load(&j->ready) < 2 && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	ok = atomic_load(&j->ready) == 2 ? talk(20 + pick(&p.random, 400)) : fail("rank 0 does not connect");
out:
	kill(pid, SIGKILL);
	ok &= job_reap(&pid, 1, 60);
	peer_end();
	rounds++;
	return nothing_left(20) && ok;
}

int main(int argc, char **argv)
{
	double seconds = 20, end;
	uint64_t seed = 1;
	struct job *j;
	bool ok = true;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seed") && a + 1 < argc) {
			seed = strtoull(argv[++a], NULL, 0);
		} else if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			seconds = atof(argv[++a]);
		} else {
			printf("usage: wire [--seed S] [--seconds S]\n"
			       "Wrong frames for a rank of dsm.ko; in a guest with the module loaded and an RDMA device.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	if (!module_loaded()) {
		fprintf(stderr, "wire: dsm.ko is not loaded\n");
		return 77;
	}
	p.random = seed;
	j = job_new();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (end = now_s() + seconds, ok = peer_open(); ok && now_s() < end;)
		ok = one_round(j);
	printf("%lu rounds of seed %llu: %lu frames, of them %lu answers, %lu writes; %lu blocks came; %lu frames wrong in "
	       "themselves, %lu connections ended\n", rounds, (unsigned long long)seed, frames, answers, writes, landed, wrong, drops);
	printf("bad messages counted: %lld\n", counter("bad_messages"));
	return ok ? 0 : 1;
}
