/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - between the three files that connect lanes: conn.c shakes hands, by ud.c, for qp.c. */
#ifndef NET_VERBS_CONN_H
#define NET_VERBS_CONN_H

#include "net/verbs/verbs.h"
#include "net/verbs/frame.h"

/* conn.c */
void conn_received(struct dev *d, const void *data, size_t bytes, uint32_t src_qp); /* a datagram */
void route_renew(struct lane *l); /* its address handle is to be made again; under conn */

static inline bool lane_is_active(const struct lane *l)
{
	return l->peer->net->cfg.rank < l->peer->rank;
}

/* ud.c; under conn */
void ud_send(struct lane *l, enum shake_type type, uint32_t epoch,
	     uint8_t reason); /* or not: who needs it repeats it */
void ud_serve(struct dev *d);

/* qp.c; under conn and the lane's lock */
void lane_address(const struct lane *l, struct ibv_ah_attr *ah);
int qp_begin(struct lane *l);                          /* a new one; what the old one had received is counted */
int qp_connect(struct lane *l, const struct shake *s); /* able to receive and to send */

#endif
