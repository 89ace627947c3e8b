// SPDX-License-Identifier: BSD-2-Clause
/*
 * churn.c - a bad neighbour: a process that creates and destroys CQs and queue pairs all the time.
 *
 * A round creates so many of both, connects each queue pair to itself, sends a message over it,
 * waits for the event of its CQ, and destroys all. It goes on until SIGTERM or SIGINT. Every
 * failure ends the process with a message.
 *
 * Output, at the end: one JSON object with the numbers of objects and messages and the seconds that
 * they took.
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "common_link.h"

#define SIZE 64       /* of a message */
#define WAIT_MS 20000 /* for an event: longer only if it was lost */
#define QP_TIMEOUT 18 /* 4.1 us * 2^18: guests without acceleration are slow */
#define OBJECTS_MAX 4096

struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_mr *mr;
static char memory[2 * SIZE]; /* sent, received */
static union ibv_gid gid;
static uint16_t lid;
static int gid_index;
static struct pair pairs[OBJECTS_MAX];
static unsigned int objects = 32;
static volatile sig_atomic_t ended;

static void must(bool fine, const char *what)
{
	if (!fine) {
		fprintf(stderr, "churn: %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void on_signal(int sig)
{
	(void)sig;
	ended = 1;
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;
	int i;

	for (i = 0; list && list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			break;
	errno = ENODEV;
	must(list && list[i], name ? name : "an RDMA device");
	device = ibv_open_device(list[i]);
	must(device, "opening the device");
	ibv_free_device_list(list);
	must(!ibv_query_port(device, 1, &port), "port 1");
	lid = port.lid;
	gid_index = link_best_gid(device, gid.raw);
	must(gid_index >= 0, "a GID of port 1");
	pd = ibv_alloc_pd(device);
	channel = ibv_create_comp_channel(device);
	must(pd && channel, "a protection domain and a completion channel");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	must(mr, "registering memory");
}

static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	must(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = qp->qp_num,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = { .is_global = 1,
					       .port_num = 1,
					       .dlid = lid,
					       .grh = { .dgid = gid,
							.sgid_index = (uint8_t)gid_index,
							.hop_limit = 1 } } };
	must(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = QP_TIMEOUT,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1 };
	must(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void create(struct pair *p)
{
	struct ibv_qp_init_attr make = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	p->cq = ibv_create_cq(device, 4, NULL, channel, 0);
	must(p->cq, "a CQ");
	must(!ibv_req_notify_cq(p->cq, 0), "arming a CQ");
	make.send_cq = make.recv_cq = p->cq;
	p->qp = ibv_create_qp(pd, &make);
	must(p->qp, "a queue pair");
	connect_to_itself(p->qp);
}

static void send_to_itself(struct ibv_qp *qp)
{
	struct ibv_sge in = { (uintptr_t)memory + SIZE, SIZE, mr->lkey },
		       out = { (uintptr_t)memory, SIZE, mr->lkey };
	struct ibv_recv_wr receive = { .sg_list = &in, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr send = { .sg_list = &out,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad_send;

	must(!ibv_post_recv(qp, &receive, &bad_receive), "posting a receive");
	must(!ibv_post_send(qp, &send, &bad_send), "posting a send");
}

/* The events of all CQs; each was armed once. */
static void await_events(void)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	unsigned int n = 0;

	while (n < objects) {
		struct ibv_cq *cq;
		void *context;
		int polled = poll(&ready, 1, WAIT_MS);

		if (polled < 0 && errno == EINTR)
			continue;
		errno = ETIMEDOUT;
		must(polled > 0, "an event");
		must(!ibv_get_cq_event(channel, &cq, &context), "an event");
		ibv_ack_cq_events(cq, 1);
		n++;
	}
}

static void destroy(struct pair *p)
{
	struct ibv_wc wc[4];
	int i, n = ibv_poll_cq(p->cq, 4, wc);

	for (i = 0; i < n; i++)
		must(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
	must(!ibv_destroy_qp(p->qp), "destroying a queue pair");
	must(!ibv_destroy_cq(p->cq), "destroying a CQ");
}

static void round_of_all(void)
{
	unsigned int i;

	for (i = 0; i < objects; i++)
		create(&pairs[i]);
	for (i = 0; i < objects; i++)
		send_to_itself(pairs[i].qp);
	await_events();
	for (i = 0; i < objects; i++)
		destroy(&pairs[i]);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' },
						 { "device", required_argument, NULL, 'd' },
						 { "objects", required_argument, NULL, 'n' },
						 { 0 } };
	struct sigaction action = { .sa_handler = on_signal };
	const char *name = NULL;
	uint64_t rounds = 0;
	double start;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
		if (c == 'd') {
			name = optarg;
		} else if (c == 'n') {
			objects = bench_number(optarg, 1, OBJECTS_MAX);
		} else {
			fprintf(c == 'h' ? stdout : stderr,
				"usage: churn [--device NAME] [--objects N]\n"
				"Creates N (32) CQs and queue pairs, uses and destroys them, again and again until SIGTERM.\n");
			return c == 'h' ? 0 : 2;
		}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	open_device(name);
	for (start = bench_now_us(); !ended; rounds++)
		round_of_all();
	printf("{\"queue_pairs\": %llu, \"cqs\": %llu, \"messages\": %llu, \"seconds\": %.3f}\n",
	       (unsigned long long)(rounds * objects), (unsigned long long)(rounds * objects),
	       (unsigned long long)(rounds * objects), (bench_now_us() - start) / 1e6);
	return 0;
}
