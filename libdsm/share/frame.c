// SPDX-License-Identifier: BSD-2-Clause
/* frame.c - what is believed of a peer's header. Pure. */
#include "share/frame.h"

#include <errno.h>
#include <string.h>

static bool is_chunk(const struct rs_frame *f, uint32_t chunk)
{
	if (f->len > chunk || f->offset > f->total || f->len > f->total - f->offset)
		return false;
	/* Only an empty message has an empty chunk: a message ends. */
	return f->len || !f->total;
}

int rs_frame_parse(const void *data, uint32_t bytes, uint32_t chunk, struct rs_frame *out)
{
	struct rs_frame f;

	if (bytes < sizeof(f))
		return -EBADMSG;
	memcpy(&f, data, sizeof(f));
	if (f.version != RS_FRAME_VERSION || !f.kind || f.kind >= RS_FRAME_KINDS || f.len != bytes - sizeof(f))
		return -EBADMSG;
	if (f.kind == RS_FRAME_DATA ? !is_chunk(&f, chunk) : f.len)
		return -EBADMSG;
	*out = f;
	return 0;
}
