// SPDX-License-Identifier: BSD-2-Clause
/*
 * verbs_conn.c - connecting lanes, and mending them.
 *
 * The two ends of a lane shake hands by datagrams, between UD queue pairs whose addresses were exchanged at the start. The
 * lower rank of the two is the active end: it counts the lane's queue pairs (epoch), and its is the timer.
 *
 *   active                         passive
 *   REQ(epoch+1, QP, received) ->           new queue pair, able to receive
 *                              <- REP(epoch, QP, received)
 *   ready: sends the rest again
 *   RTU(epoch)                 ->           ready: sends the rest again
 *
 * A passive end that wants to send, or finds its queue pair broken, asks with POKE(epoch of its queue pair, 0: none yet)
 * until a REQ comes. Datagrams get lost, doubled and overtaken: who asks repeats it, an answer is given to every REQ of the
 * present epoch, and anything of an earlier epoch is ignored. Every datagram names the key of the rank it is for, from that
 * rank's address; who does not know it (a process of another job, of another version) is told so and otherwise ignored.
 *
 * A receiver freezes a lane before it says what it has received: its queue pair is put into the error state, so that it
 * acknowledges nothing more, and what was acknowledged is taken out of the completion queue. Otherwise the sender could
 * forget, for it was acknowledged, what is then thrown away.
 */
#include "net/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "net/verbs_gid.h"
#include "util/log.h"

#define SHAKE_MAGIC 0x73646831u /* "1hds" */
#define SHAKE_VERSION 1
#define UD_RECVS 256
#define UD_SENDS 64
#define UD_ROOM 128       /* bytes of a buffer: 40 of routing header before what is received */
#define INTERVAL_MS 20    /* until a datagram is repeated, at first */
#define INTERVAL_MAX_MS 320
#define FRUITLESS_MAX 20  /* repairs in a row without a frame moved, before we give up */
#define STEADY_MS 1000    /* a connection that held so long was no fruitless one */
#define LOST_MS 2000      /* where the configuration names none */

enum shake_type { SHAKE_REQ = 1, SHAKE_REP, SHAKE_RTU, SHAKE_POKE, SHAKE_REFUSE };
enum { REFUSE_VERSION = 1, REFUSE_KEY, REFUSE_GONE };

/* The first 24 bytes stay as they are in every version. */
struct shake {
	uint32_t magic;
	uint16_t version;
	uint8_t type, class;
	uint16_t from, to;
	uint32_t epoch;
	uint64_t key;      /* of the rank it is for */
	uint32_t qpn, psn;
	uint32_t received; /* frames */
	uint32_t rkey;
	uint64_t landing;
	uint8_t rd_atomic, reason, pad[6];
};
_Static_assert(sizeof(struct shake) == 56, "size of struct shake");

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_active(const struct lane *l)
{
	return l->peer->net->cfg.rank < l->peer->rank;
}

/* ---- who wants what ---------------------------------------------------------------------------- */

void conn_want(struct lane *l)
{
	struct net *n = l->peer->net;

	pthread_mutex_lock(&n->leaf);
	if (!l->wanted) {
		l->wanted = true;
		l->next_wanted = n->wanted;
		n->wanted = l;
		atomic_fetch_add(&n->busy, 1);
	}
	pthread_mutex_unlock(&n->leaf);
	atomic_store(&n->again, 1);
}

void conn_kick(struct net *n)
{
	uint64_t one = 1;

	if (write(n->kick, &one, sizeof(one)) < 0)
		one = 0; /* it is full of kicks */
}

void peer_lose(struct peer *p, int err)
{
	struct net *n = p->net;
	uint8_t known = PEER_KNOWN;

	if (!atomic_compare_exchange_strong(&p->state, &known, PEER_LOST))
		return;
	p->err = err;
	pthread_mutex_lock(&n->leaf);
	p->next_lost = n->lost;
	n->lost = p;
	pthread_mutex_unlock(&n->leaf);
	atomic_fetch_add(&n->pending, 1);
	conn_kick(n);
}

/* ---- datagrams --------------------------------------------------------------------------------- */

static int ud_post_recv(struct dev *d, unsigned int i)
{
	struct ibv_sge sge = { .addr = (uintptr_t)d->ud.mem + (uint64_t)i * UD_ROOM, .length = UD_ROOM, .lkey = d->ud.lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_make(WR_RECV, i), .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(d->ud.qp, &wr, &bad) ? -ENOMEM : 0;
}

static int ud_to_rts(struct dev *d)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = d->port, .qkey = d->ud.qkey };

	if (ibv_modify_qp(d->ud.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return -EIO;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(d->ud.qp, &attr, IBV_QP_STATE))
		return -EIO;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(d->ud.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -EIO : 0;
}

int conn_ud_open(struct dev *d)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = UD_SENDS, .max_recv_wr = UD_RECVS, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};
	struct ud *u = &d->ud;
	struct ibv_mr *mr;
	unsigned int i;
	int err = 0;

	u->mem = mem_cut(d, MEM_PRIVATE, (UD_RECVS + UD_SENDS) * UD_ROOM, &mr);
	if (!u->mem)
		return -ENOMEM;
	u->lkey = mr->lkey;
	if (getrandom(&u->qkey, sizeof(u->qkey), 0) != sizeof(u->qkey))
		return -EIO;
	u->qkey &= 0x7fffffff; /* the highest bit means: that of the queue pair that sends */
	u->channel = ibv_create_comp_channel(d->ctx);
	if (u->channel)
		u->cq = ibv_create_cq(d->ctx, UD_RECVS + UD_SENDS, NULL, u->channel, 0);
	init.send_cq = init.recv_cq = u->cq;
	if (u->cq)
		u->qp = ibv_create_qp(d->pd, &init);
	if (!u->qp) {
		log_line("RDMA: %s makes no datagram queue pair: %s", d->name, strerror(errno));
		return -ENOMEM;
	}
	fcntl(u->channel->fd, F_SETFL, fcntl(u->channel->fd, F_GETFL) | O_NONBLOCK);
	err = ud_to_rts(d);
	for (i = 0; i < UD_RECVS && !err; i++)
		err = ud_post_recv(d, i);
	if (!err && ibv_req_notify_cq(u->cq, 0))
		err = -EIO;
	if (err)
		log_line("RDMA: %s: the datagram queue pair cannot be used: %s", d->name, strerror(-err));
	return err;
}

void conn_ud_close(struct dev *d)
{
	if (d->ud.qp)
		ibv_destroy_qp(d->ud.qp);
	if (d->ud.cq)
		ibv_destroy_cq(d->ud.cq);
	if (d->ud.channel)
		ibv_destroy_comp_channel(d->ud.channel);
}

static void address_vector(const struct lane *l, struct ibv_ah_attr *ah)
{
	const struct blob_dev *to = &l->peer->at->devs[l->remote_dev];

	memset(ah, 0, sizeof(*ah));
	ah->port_num = l->dev->port;
	ah->dlid = to->lid;
	if (l->dev->pattr.link_layer == IBV_LINK_LAYER_INFINIBAND && !memcmp(to->gid, l->dev->gid.raw, 8))
		return; /* one subnet: no routing header */
	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, to->gid, sizeof(to->gid));
	ah->grh.sgid_index = l->dev->gid_index;
	ah->grh.hop_limit = 64;
}

/* Sent or not: it is repeated if need be. */
static void ud_send(struct lane *l, enum shake_type type, uint32_t epoch, uint8_t reason)
{
	struct dev *d = l->dev;
	struct peer *p = l->peer;
	const struct blob_dev *to = &p->at->devs[l->remote_dev];
	const unsigned int i = UD_RECVS + d->ud.next % UD_SENDS;
	struct shake *s = (struct shake *)(d->ud.mem + (size_t)i * UD_ROOM);
	struct ibv_sge sge = { .addr = (uintptr_t)s, .length = sizeof(*s), .lkey = d->ud.lkey };
	struct ibv_send_wr wr = { .wr_id = wr_make(WR_SEND, i), .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_ah_attr attr;
	char text[64];

	if (d->ud.posted == UD_SENDS)
		return;
	if (!l->ah) {
		dev_gid_refresh(d);
		address_vector(l, &attr);
		l->ah = ibv_create_ah(d->pd, &attr);
	}
	if (!l->ah) {
		if (!p->complained++)
			log_line("RDMA: no way from %s to rank %d at %s: %s (do the devices have GIDs of one family? see DSM_NET_GID)",
				 d->name, p->rank, gid_print((const union ibv_gid *)to->gid, text, sizeof(text)), strerror(errno));
		return;
	}
	*s = (struct shake){
		.magic = SHAKE_MAGIC, .version = SHAKE_VERSION, .type = (uint8_t)type, .class = l->class, .from = p->net->cfg.rank,
		.to = p->rank, .epoch = epoch, .key = p->at->key, .psn = l->psn, .received = l->last_rx, .rkey = d->landing->rkey,
		.landing = (uintptr_t)p->net->landing, .rd_atomic = (uint8_t)(d->attr.max_qp_rd_atom < READS ? d->attr.max_qp_rd_atom : READS),
		.reason = reason, .qpn = l->qp ? l->qp->qp_num : 0,
	};
	wr.wr.ud.ah = l->ah;
	wr.wr.ud.remote_qpn = to->ud_qpn;
	wr.wr.ud.remote_qkey = to->qkey;
	if (!ibv_post_send(d->ud.qp, &wr, &bad)) {
		d->ud.posted++;
		d->ud.next++;
	}
}

/* ---- queue pairs ------------------------------------------------------------------------------- */

/* Under conn and the lane's lock. */
static void qp_end(struct lane *l)
{
	if (!l->qp)
		return;
	queue_freeze(l);
	dev_lane_set(l->dev, l->qp->qp_num, NULL);
	ibv_destroy_qp(l->qp);
	l->qp = NULL;
	l->reads = 0;
}

void lane_end(struct lane *l)
{
	struct fetch *f;
	struct buf *b;
	struct out *o;

	qp_end(l);
	l->state = LANE_DEAD;
	while ((f = l->fetches)) {
		l->fetches = f->next;
		buf_put(l->dev, f->buf);
		free(f);
	}
	while ((b = l->lent)) {
		l->lent = b->next;
		buf_put(l->dev, b);
	}
	while ((o = l->head)) {
		l->head = o->next;
		frame_put(l->dev, o);
	}
	l->tail = &l->head;
	lane_retire(l, l->sent);
	free(l->ring);
	l->ring = NULL;
	if (l->ah)
		ibv_destroy_ah(l->ah);
	l->ah = NULL;
}

static int ring_create(struct lane *l)
{
	const struct verbs_set *set = &l->peer->net->set;

	if (l->ring)
		return 0;
	l->depth = set->depth >= 4 ? set->depth : l->class == CLASS_DATA || l->class == CLASS_BULK ? 32 : 64;
	l->ring = calloc(l->depth, sizeof(*l->ring));
	return l->ring ? 0 : -ENOMEM;
}

static struct ibv_qp *qp_create(struct lane *l)
{
	struct ibv_qp_init_attr init = {
		.send_cq = l->queue->cq, .recv_cq = l->queue->cq, .srq = l->dev->srq[l->class],
		.cap = { .max_send_wr = 2 * l->depth + READS + 4, .max_send_sge = 1, .max_inline_data = l->dev->inlined },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(l->dev->pd, &init);

	while (!qp && init.cap.max_inline_data && (errno == EINVAL || errno == ENOMEM)) {
		init.cap.max_inline_data /= 2; /* more than the device has */
		l->dev->inlined = init.cap.max_inline_data;
		qp = ibv_create_qp(l->dev->pd, &init);
	}
	return qp;
}

/* A new queue pair for the lane; what the old one had received is counted. Under conn and the lane's lock. */
static int qp_begin(struct lane *l)
{
	const struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = l->dev->port, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int err = ring_create(l);

	qp_end(l);
	l->last_rx = l->rx_seq;
	if (err)
		return err;
	l->qp = qp_create(l);
	if (!l->qp) {
		log_line("RDMA: %s makes no more queue pairs: %s", l->dev->name, strerror(errno));
		return -ENOMEM;
	}
	if (ibv_modify_qp(l->qp, (struct ibv_qp_attr *)&attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
		log_line("RDMA: %s: a queue pair cannot be used: %s", l->dev->name, strerror(errno));
		return -EIO;
	}
	if (getrandom(&l->psn, sizeof(l->psn), 0) != sizeof(l->psn))
		l->psn = l->qp->qp_num * 2654435761u;
	l->psn &= 0xffffff;
	l->inlined = l->dev->inlined;
	dev_lane_set(l->dev, l->qp->qp_num, l);
	if (dev_lane(l->dev, l->qp->qp_num) != l)
		return -ENOMEM;
	pthread_mutex_lock(&l->queue->lock);
	l->rx_qpn = l->qp->qp_num;
	pthread_mutex_unlock(&l->queue->lock);
	return 0;
}

/* With what the peer has said: able to receive and to send. */
static int qp_connect(struct lane *l, const struct shake *s)
{
	const struct blob_dev *to = &l->peer->at->devs[l->remote_dev];
	const struct verbs_set *set = &l->peer->net->set;
	struct ibv_qp_attr attr = { /* the address below */
		.qp_state = IBV_QPS_RTR, .path_mtu = l->dev->pattr.active_mtu < to->mtu ? l->dev->pattr.active_mtu : (enum ibv_mtu)to->mtu,
		.dest_qp_num = s->qpn, .rq_psn = s->psn, .max_dest_rd_atomic = s->rd_atomic, .min_rnr_timer = 8,
	};

	dev_gid_refresh(l->dev);
	address_vector(l, &attr.ah_attr);
	if (attr.max_dest_rd_atomic > l->dev->attr.max_qp_rd_atom)
		attr.max_dest_rd_atomic = (uint8_t)l->dev->attr.max_qp_rd_atom;
	if (ibv_modify_qp(l->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -errno;
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = (uint8_t)set->timeout;
	attr.retry_cnt = (uint8_t)set->retry;
	attr.rnr_retry = 7; /* for good */
	attr.sq_psn = l->psn;
	attr.max_rd_atomic = attr.max_dest_rd_atomic;
	if (ibv_modify_qp(l->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		return -errno;
	l->peer_qpn = s->qpn;
	l->peer_psn = s->psn;
	l->landing = s->landing;
	l->landing_rkey = s->rkey;
	return 0;
}

/* ---- the two ends; under conn and the lane's lock ---------------------------------------------- */

static void transit(struct lane *l, enum lane_state state)
{
	struct net *n = l->peer->net;

	if (!l->in_transit) {
		l->in_transit = true;
		l->next_transit = n->transit;
		n->transit = l;
		atomic_fetch_add(&n->busy, 1);
		l->waited = 0;
	}
	l->state = (uint8_t)state;
	l->interval = INTERVAL_MS;
	l->tried_at = now_ms();
}

static int fail_lane(struct lane *l, int err)
{
	peer_lose(l->peer, err == -ENOMEM ? -ENOMEM : -EPIPE);
	return err;
}

/* The active end opens an epoch. */
static void ask(struct lane *l)
{
	if (now_ms() - l->began_at > STEADY_MS)
		l->fruitless = 0;
	l->began_at = now_ms();
	if (++l->fruitless > FRUITLESS_MAX) {
		log_line("RDMA: the connection to rank %d by %s breaks again and again", l->peer->rank, l->dev->name);
		fail_lane(l, -EPIPE);
		return;
	}
	l->epoch++;
	if (qp_begin(l)) {
		fail_lane(l, -ENOMEM);
		return;
	}
	transit(l, LANE_ASKED);
	ud_send(l, SHAKE_REQ, l->epoch, 0);
}

static void want(struct lane *l)
{
	if (l->state != LANE_BROKEN)
		return;
	if (is_active(l)) {
		ask(l);
		return;
	}
	transit(l, LANE_ASKED);
	ud_send(l, SHAKE_POKE, l->epoch, 0);
}

static void got_poke(struct lane *l, const struct shake *s)
{
	if (!is_active(l) || s->epoch != l->epoch)
		return; /* an echo of an epoch that is over */
	ask(l);
}

static void got_req(struct lane *l, const struct shake *s)
{
	int err;

	if (is_active(l) || (int32_t)(s->epoch - l->epoch) < 0)
		return;
	if (s->epoch == l->epoch) {
		if (l->state == LANE_ANSWERED || l->state == LANE_READY)
			ud_send(l, SHAKE_REP, l->epoch, 0);
		return;
	}
	if (qp_begin(l)) {
		fail_lane(l, -ENOMEM);
		return;
	}
	l->epoch = s->epoch;
	err = qp_connect(l, s);
	if (err) {
		log_line("RDMA: %s cannot be connected to rank %d: %s", l->dev->name, l->peer->rank, strerror(-err));
		fail_lane(l, -EPIPE);
		return;
	}
	if ((int32_t)(s->received - l->done) < 0 || (int32_t)(s->received - l->sent) > 0) {
		peer_lose(l->peer, -EBADMSG);
		return;
	}
	lane_retire(l, s->received);
	transit(l, LANE_ANSWERED);
	ud_send(l, SHAKE_REP, l->epoch, 0);
}

static void got_rep(struct lane *l, const struct shake *s)
{
	int err;

	if (!is_active(l) || s->epoch != l->epoch)
		return;
	if (l->state == LANE_ASKED) {
		err = qp_connect(l, s);
		if (err) {
			log_line("RDMA: %s cannot be connected to rank %d: %s", l->dev->name, l->peer->rank, strerror(-err));
			fail_lane(l, -EPIPE);
			return;
		}
		if (lane_ready(l, s->received)) {
			peer_lose(l->peer, -EBADMSG);
			return;
		}
	}
	if (l->state == LANE_READY)
		ud_send(l, SHAKE_RTU, l->epoch, 0);
}

static void got_rtu(struct lane *l, const struct shake *s)
{
	if (!is_active(l) && s->epoch == l->epoch && l->state == LANE_ANSWERED)
		lane_ready(l, l->done);
}

/* ---- what comes in ------------------------------------------------------------------------------ */

static void refused(struct peer *p, const struct shake *s)
{
	if (s->reason != REFUSE_GONE)
		log_line("rank %d refuses this rank: %s", p->rank,
			 s->reason == REFUSE_VERSION ? "it runs another version of libdsm" : "it is of another job");
	peer_lose(p, -EPIPE);
}

/* Is it for us, of the rank it says, in our version? */
static struct lane *judge(struct dev *d, const struct shake *s, const struct ibv_wc *wc)
{
	struct net *n = d->net;
	struct peer *p;
	uint8_t reason = 0;

	if (wc->byte_len < 40 + 24 || s->magic != SHAKE_MAGIC || s->from >= n->cfg.size || s->from == n->cfg.rank)
		goto bad;
	p = &n->peers[s->from];
	if (!peer_well(p) || s->class >= CLASS_MAX)
		return NULL; /* not known yet: it will ask again. Or lost, and was told so */
	if (s->version != SHAKE_VERSION)
		reason = REFUSE_VERSION;
	else if (s->key != n->key || s->to != n->cfg.rank)
		reason = REFUSE_KEY;
	else if (wc->byte_len != 40 + sizeof(*s) || wc->src_qp != p->at->devs[p->lanes[s->class].remote_dev].ud_qpn)
		goto bad;
	if (!reason)
		return &p->lanes[s->class];
	verbs_count(&n->count.malformed, 1);
	if (!p->complained++)
		log_line("who says to be rank %d asks for a connection and %s; ignored", p->rank,
			 reason == REFUSE_VERSION ? "runs another version of libdsm" : "is of another job");
	/* With the key of that rank of ours: a stranger will not take it for its own. */
	if (s->type != SHAKE_REFUSE)
		ud_send(&p->lanes[s->class], SHAKE_REFUSE, s->epoch, reason);
	return NULL;
bad:
	verbs_count(&n->count.malformed, 1);
	return NULL;
}

static void ud_received(struct dev *d, const struct ibv_wc *wc)
{
	const struct shake *s = (const struct shake *)(d->ud.mem + (wc->wr_id & 0xffff) * UD_ROOM + 40);
	struct lane *l = judge(d, s, wc);

	if (!l)
		return;
	if (s->type == SHAKE_REFUSE) {
		refused(l->peer, s);
		return;
	}
	pthread_mutex_lock(&l->lock);
	if (l->state != LANE_DEAD)
		switch (s->type) {
		case SHAKE_REQ:
			got_req(l, s);
			break;
		case SHAKE_REP:
			got_rep(l, s);
			break;
		case SHAKE_RTU:
			got_rtu(l, s);
			break;
		case SHAKE_POKE:
			got_poke(l, s);
			break;
		default:
			verbs_count(&d->net->count.malformed, 1);
		}
	pthread_mutex_unlock(&l->lock);
}

/* While there is no route to a peer, a send puts even a datagram queue pair into the error state. */
static void ud_mend(struct dev *d)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;
	unsigned int i;

	d->ud.broken = false;
	ibv_modify_qp(d->ud.qp, &attr, IBV_QP_STATE);
	while (ibv_poll_cq(d->ud.cq, 1, &wc) > 0)
		; /* of before; whoever said something will say it again */
	d->ud.posted = 0;
	ud_to_rts(d);
	for (i = 0; i < UD_RECVS; i++)
		if (ud_post_recv(d, i))
			break; /* they were still there */
}

static void ud_serve(struct dev *d)
{
	struct ibv_wc wc[16];
	int i, n;

	while ((n = ibv_poll_cq(d->ud.cq, 16, wc)) > 0)
		for (i = 0; i < n; i++) {
			if (wc[i].wr_id >> 56 == WR_SEND) {
				d->ud.posted--;
				d->ud.broken |= wc[i].status != IBV_WC_SUCCESS;
				continue;
			}
			if (wc[i].status == IBV_WC_SUCCESS)
				ud_received(d, &wc[i]);
			ud_post_recv(d, (unsigned int)(wc[i].wr_id & 0xffff));
		}
	if (d->ud.broken)
		ud_mend(d);
}

/* ---- time --------------------------------------------------------------------------------------- */

static void repeat(struct lane *l)
{
	if (l->ah) /* it may be of a GID that went and came again with the link */
		ibv_destroy_ah(l->ah);
	l->ah = NULL;
	if (l->state == LANE_ANSWERED)
		ud_send(l, SHAKE_REP, l->epoch, 0);
	else if (l->state == LANE_ASKED)
		ud_send(l, is_active(l) ? SHAKE_REQ : SHAKE_POKE, l->epoch, 0);
}

/* Under conn. Returns when this lane wants to be looked at again; 0: not any more. */
static uint64_t tick(struct lane *l, uint64_t now)
{
	struct net *n = l->peer->net;
	const uint32_t limit = n->cfg.lost_ms ? n->cfg.lost_ms : LOST_MS;
	uint64_t next = 0;

	pthread_mutex_lock(&l->lock);
	if ((l->state == LANE_ASKED || l->state == LANE_ANSWERED) && peer_well(l->peer) && !atomic_load(&l->peer->left)) {
		if (now >= l->tried_at + l->interval) {
			/* Who was stopped, or starved, for long has not waited for its peer so long. */
			uint64_t waited = now - l->tried_at;

			l->waited += (uint32_t)(waited > 2 * l->interval ? 2 * l->interval : waited);
			l->tried_at = now;
			l->interval = l->interval * 2 < INTERVAL_MAX_MS ? l->interval * 2 : INTERVAL_MAX_MS;
			if (l->waited < limit)
				repeat(l);
			else
				peer_lose(l->peer, -EPIPE);
		}
		next = l->tried_at + l->interval;
	}
	pthread_mutex_unlock(&l->lock);
	return next;
}

static void set_timer(struct net *n, uint64_t at)
{
	const struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at / 1000), .tv_nsec = (long)(at % 1000) * 1000000 } };

	if (at == n->timer_at)
		return;
	n->timer_at = at;
	timerfd_settime(n->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void time_serve(struct net *n)
{
	struct lane **at = &n->transit, *l;
	uint64_t next = 0, now, t;

	if (!n->transit) {
		set_timer(n, 0);
		return;
	}
	now = now_ms();
	while ((l = *at)) {
		t = tick(l, now);
		if (t) {
			next = next && next < t ? next : t;
			at = &l->next_transit;
			continue;
		}
		*at = l->next_transit;
		l->in_transit = false;
		atomic_fetch_sub(&n->busy, 1);
	}
	set_timer(n, next);
}

/* ---- all together -------------------------------------------------------------------------------- */

static void wants_serve(struct net *n)
{
	struct lane *l;

	for (;;) {
		pthread_mutex_lock(&n->leaf);
		l = n->wanted;
		if (l) {
			n->wanted = l->next_wanted;
			l->wanted = false;
		}
		pthread_mutex_unlock(&n->leaf);
		if (!l)
			return;
		atomic_fetch_sub(&n->busy, 1);
		pthread_mutex_lock(&l->lock);
		if (peer_well(l->peer) && !atomic_load(&l->peer->left))
			want(l);
		pthread_mutex_unlock(&l->lock);
	}
}

/* Done with a peer. It is told, so that it need not find out by its connections' timeouts. */
static void lanes_end(struct peer *p)
{
	unsigned int c;

	if (p->at && !p->net->closing && p->lanes[0].state != LANE_DEAD)
		ud_send(&p->lanes[0], SHAKE_REFUSE, p->lanes[0].epoch, REFUSE_GONE);
	for (c = 0; c < CLASS_MAX; c++) {
		struct lane *l = &p->lanes[c];

		pthread_mutex_lock(&l->lock);
		if (l->dev && l->state != LANE_DEAD)
			lane_end(l);
		pthread_mutex_unlock(&l->lock);
	}
}

static void bury(struct net *n)
{
	struct peer *p;

	for (;;) {
		pthread_mutex_lock(&n->leaf);
		p = n->to_bury;
		if (p)
			n->to_bury = p->next_lost;
		pthread_mutex_unlock(&n->leaf);
		if (!p)
			return;
		lanes_end(p);
	}
}

void conn_forget(struct peer *p)
{
	pthread_mutex_lock(&p->net->conn);
	lanes_end(p);
	pthread_mutex_unlock(&p->net->conn);
}

/* A device that is gone takes its lanes along; each finds out by itself, and is mended or not. */
static void async_serve(struct dev *d)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(d->ctx, &ev)) {
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL)
			log_line("RDMA: %s has failed: %s", d->name, ibv_event_type_str(ev.event_type));
		else if (ev.event_type == IBV_EVENT_CQ_ERR)
			log_line("RDMA: a completion queue of %s ran over", d->name);
		else if (ev.event_type == IBV_EVENT_QP_FATAL || ev.event_type == IBV_EVENT_QP_ACCESS_ERR ||
			 ev.event_type == IBV_EVENT_QP_REQ_ERR) {
			struct lane *l = dev_lane(d, ev.element.qp->qp_num);

			if (l) {
				pthread_mutex_lock(&l->lock);
				if (l->qp == ev.element.qp)
					lane_broken(l);
				pthread_mutex_unlock(&l->lock);
			}
		}
		ibv_ack_async_event(&ev);
	}
}

static void descriptors_serve(struct net *n)
{
	struct epoll_event ev[2 + 2 * VERBS_DEVICES];
	int i, count = epoll_wait(n->epfd, ev, (int)(sizeof(ev) / sizeof(ev[0])), 0);
	struct ibv_cq *cq;
	uint64_t word;
	void *context;

	for (i = 0; i < count; i++) {
		const uint32_t index = (uint32_t)ev[i].data.u64;
		const int fd = (int)(ev[i].data.u64 >> 32);

		if (fd == n->timer || fd == n->kick) {
			if (read(fd, &word, sizeof(word)) == sizeof(word) && fd == n->timer)
				n->timer_at = 0;
		} else if (index < n->ndevs && fd == n->devs[index].ctx->async_fd) {
			async_serve(&n->devs[index]);
		} else if (index < n->ndevs && fd == n->devs[index].ud.channel->fd) {
			while (!ibv_get_cq_event(n->devs[index].ud.channel, &cq, &context))
				ibv_ack_cq_events(cq, 1);
			ibv_req_notify_cq(n->devs[index].ud.cq, 0);
		}
	}
}

void conn_serve(struct net *n, bool all)
{
	unsigned int i;

	do {
		if (pthread_mutex_trylock(&n->conn)) {
			if (!all) {
				atomic_store(&n->again, 1);
				return; /* who has it looks again */
			}
			pthread_mutex_lock(&n->conn);
		}
		atomic_store(&n->again, 0);
		if (all)
			descriptors_serve(n);
		bury(n);
		wants_serve(n);
		for (i = 0; i < n->ndevs; i++)
			ud_serve(&n->devs[i]);
		time_serve(n);
		pthread_mutex_unlock(&n->conn);
	} while (atomic_load(&n->again));
}
