// SPDX-License-Identifier: BSD-2-Clause
/* frame.c - checks a peer's header. Pure. */
#include "share/frame.h"

#include <errno.h>
#include <string.h>

#include "share/rules.h"

static bool open_good(const struct rs_frame *f, const struct rs_limits *x)
{
	struct rs_open o;

	memcpy(&o, f, sizeof(o));
	return rs_is_OPEN(&o, x);
}

static bool frame_good(const struct rs_frame *f, const struct rs_limits *x)
{
	switch ((enum rs_frame_kind)f->kind) {
	case RS_FRAME_DATA: /* only an empty message has an empty chunk: a message ends */
		return x->behind ? rs_is_DATA(f, x) : rs_is_EMPTY(f, x);
	case RS_FRAME_FIRST: return x->behind ? rs_is_FIRST(f, x) : rs_is_FIRST_EMPTY(f, x);
	case RS_FRAME_WRITTEN: return rs_is_WRITTEN(f, x);
	case RS_FRAME_ATOMIC: return rs_is_ATOMIC(f, x);
	case RS_FRAME_RESULT: return rs_is_RESULT(f, x);
	case RS_FRAME_CREDIT: return rs_is_CREDIT(f, x);
	case RS_FRAME_OPEN: return open_good(f, x);
	case RS_FRAME_OPENED: return rs_is_OPENED(f, x);
	case RS_FRAME_REFUSED: return rs_is_REFUSED(f, x);
	case RS_FRAME_CLOSE: return rs_is_CLOSE(f, x);
	case RS_FRAME_CLOSED: return rs_is_CLOSED(f, x);
	case RS_FRAME_RESET: return rs_is_RESET(f, x) || rs_is_UNKNOWN(f, x);
	case RS_FRAME_KINDS:
	default: return false;
	}
}

static bool has_payload(uint8_t kind)
{
	return kind == RS_FRAME_DATA || kind == RS_FRAME_FIRST || kind == RS_FRAME_ATOMIC;
}

int rs_frame_parse(const void *data, uint32_t bytes, uint32_t chunk, struct rs_frame *out)
{
	struct rs_limits x = { .chunk = chunk };
	struct rs_frame f;

	if (bytes < sizeof(f))
		return -EBADMSG;
	memcpy(&f, data, sizeof(f));
	x.behind = bytes - (uint32_t)sizeof(f);
	x.total = f.total;
	if ((x.behind && !has_payload(f.kind)) || !frame_good(&f, &x))
		return -EBADMSG;
	*out = f;
	return 0;
}
