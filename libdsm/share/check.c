// SPDX-License-Identifier: BSD-2-Clause
/* check.c - checks requests, answers, and the messages that owners exchange. Pure. */
#include "share/check.h"

#include <errno.h>

/* ---- between owners ------------------------------------------------------------------------- */

static int judge(const struct rs_hello *h, const struct rs_limits *x)
{
	if (!rs_holds_HELLO_MAGIC(h->magic, x) || !rs_holds_VERSION(h->version, x))
		return -EPROTO;
	return rs_holds_KEY(h->key, x) ? 0 : -EACCES;
}

int rs_hello_asks(const struct rs_hello *h, uint64_t key)
{
	const struct rs_limits x = { .key = key };
	const int err = judge(h, &x);

	if (err)
		return err;
	return rs_is_HELLO(h, &x) && rs_is_QPS(&h->address, &x) ? 0 : -EPROTO;
}

int rs_hello_answers(const struct rs_hello *h, uint64_t key)
{
	const struct rs_limits x = { .key = key };
	const int err = judge(h, &x);

	if (err)
		return err;
	if (rs_is_REFUSAL(h, &x) && rs_is_NO_QPS(&h->address, &x))
		return h->status;
	return rs_hello_asks(h, key);
}

/* ---- between a process and its owner -------------------------------------------------------- */

int rs_request_check(const struct rs_request *q, uint32_t conns)
{
	const struct rs_limits x = { .conns = conns };
	bool good = false;

	if (!conns != (q->type == RS_ATTACH) ||
	    (!conns && !rs_holds_CONTROL_VERSION(q->version, &x)))
		return -EPROTO;
	switch ((enum rs_request_type)q->type) {
	case RS_ATTACH: good = rs_is_ASK_ATTACH(q, &x); break;
	case RS_LISTEN: good = rs_is_ASK_LISTEN(q, &x); break;
	case RS_CONNECT: good = rs_is_ASK_CONNECT(q, &x); break;
	case RS_PRIORITY: good = rs_is_ASK_PRIORITY(q, &x); break;
	case RS_CLOSE:
	case RS_RELEASE:
	case RS_FD:
	case RS_STATS:
	case RS_JOIN: good = rs_is_ASK_ABOUT(q, &x); break;
	case RS_INFO: good = rs_is_ASK_INFO(q, &x); break;
	case RS_GRANT: good = rs_is_ASK_GRANT(q, &x); break;
	case RS_REVOKE: good = rs_is_ASK_REVOKE(q, &x); break;
	}
	return good ? 0 : -EINVAL;
}

static bool answer_ok(const struct rs_request *q, const struct rs_answer *a,
		      const struct rs_limits *x)
{
	if (!rs_is_LAYOUT(&a->layout, x))
		return false;
	if (q->type == RS_ATTACH || q->type == RS_GRANT)
		return rs_is_ATTACHED(a, x);
	return rs_is_DONE(a, x) && (q->type != RS_STATS || rs_is_STATS(&a->stats, x)) &&
		(q->type != RS_INFO || rs_is_INFO(&a->info, x));
}

int rs_answer_check(const struct rs_request *q, const struct rs_answer *a, uint32_t conns)
{
	struct rs_limits x = { .conns = conns };

	if (a->status)
		return rs_is_FAILED(a, &x) && rs_is_LAYOUT(&a->layout, &x) ? a->status : -EPROTO;
	if (q->type == RS_ATTACH)
		x.layout = rs_layout(q->conns, 1u << q->depth_shift, (uint64_t)q->pages * RS_PAGE);
	return answer_ok(q, a, &x) ? 0 : -EPROTO;
}
