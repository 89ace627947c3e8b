/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upcalls.h - what the lower parts of the engine call in the higher ones. All other calls go down;
 * scripts/check-knots knows each entry.
 *
 * job.up is set when the process starts to join a job, and is constant from then on. Unless noted
 * otherwise, any thread inside the runtime may make these calls, also in the fault handler, without
 * a stripe.
 */
#ifndef JOB_UPCALLS_H
#define JOB_UPCALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct asleep;
struct msg;

struct upcalls {
	/*
	 * Handle messages that have arrived, at most this many: run_poll(). Called while a loss is
	 * confirmed.
	 */
	int (*poll)(unsigned int most);
	/*
	 * Handle MSG_CALL, MSG_RETURN and MSG_CHUNK: call_arrived(), call_returned(),
	 * chunk_arrived(). None waits.
	 */
	int (*call)(const struct msg *m, const void *payload, size_t size);
	int (*answer)(const struct msg *m, const void *payload, size_t size);
	int (*chunk)(const struct msg *m, const void *payload, size_t size);
	/*
	 * A thread has waited since `since`; report it if that is long: stall_check(). Blocks
	 * outside the fault handler.
	 */
	void (*long_wait)(uint64_t since, uint64_t now);
	/*
	 * May this thread report such a wait itself? It has to, then: no other thread of its node
	 * reports for a while. stall_is_due(). Does not block.
	 */
	bool (*wait_is_due)(uint64_t since, uint64_t now);
	/* Serve CALL_ASLEEP: deadlock_serve(). For the service thread; does not block. */
	int (*asleep)(struct asleep *out);
};

#endif
