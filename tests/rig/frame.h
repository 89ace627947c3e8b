/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What agent and host say to each other, over the virtio port of a guest and, between guests, over
 * TCP: frames of a header and `length` bytes. Integers are little-endian, as both sides are.
 * supervisor.py has the same layout.
 */
#ifndef CLUSTER_FRAME_H
#define CLUSTER_FRAME_H

#include <assert.h>
#include <stdint.h>

struct frame {
	uint32_t length;
	uint16_t job; /* chosen by who sends FRAME_RUN, unique among its running jobs */
	uint8_t type;
	uint8_t unused;
};
static_assert(sizeof(struct frame) == 8, "the layout is shared with Python");

enum {
	/* strings, each ended by NUL: folder, memlock limit, count of settings, settings, words */
	FRAME_RUN = 'R',
	FRAME_SIGNAL = 'S', /* one byte: sent to the job's process group */
	FRAME_HELLO = 'H',  /* agent: the guest is up */
	FRAME_OUT = 'O',    /* agent: standard output of the job */
	FRAME_ERR = 'E',    /* agent: standard error of the job */
	/* agent: one byte, the status as a shell has it; the job's last frame */
	FRAME_EXIT = 'X',
};

enum {
	FRAME_MAX = 1 << 20, /* longer is a broken stream */
	AGENT_PORT = 7007,   /* TCP, on the control network */
};

#endif
