// SPDX-License-Identifier: BSD-2-Clause
/*
 * polls.c - calls that wait with a signal mask of their own. On another rank than 0, rank 0's
 * thread that makes the call has no part in the signals of the program: the mask is that of the
 * thread that waits here, from when a handler can end the call until it is done.
 */
#include "shim.h"

#include "interpose/files.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "masks.h"
#include "pending.h"

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask,
		size_t size);

static bool poll_is_runtimes(const void *caller)
{
	return dsm_files_is_runtime && dsm_files_is_runtime(caller);
}

/* Is the mask for this thread, and the call for rank 0? */
static bool poll_keeps_mask(const sigset_t *mask, const void *caller)
{
	return mask && dsm_files_mask && shim.active && shim.rank && is_rank() &&
		!poll_is_runtimes(caller);
}

static uint64_t poll_begin_masked(const sigset_t *mask)
{
	uint64_t blocked, outer;

	memcpy(&blocked, mask, sizeof(blocked));
	outer = pending_await(~blocked);
	dsm_files_mask(&blocked);
	return outer;
}

static void poll_end_masked(void *outer)
{
	dsm_files_mask(NULL);
	pending_await_ends(*(uint64_t *)outer);
}

/* The call has `mask` as an argument. */
#define POLL(call)                                                      \
	({                                                              \
		const void *const caller_ = CALLER;                     \
		sigset_t copy_;                                         \
		int got_;                                               \
		mask = without_misses(mask, &copy_, caller_);           \
		if (poll_is_runtimes(caller_)) {                        \
			got_ = call;                                    \
		} else if (!poll_keeps_mask(mask, caller_)) {           \
			got_ = PASS_ON(call);                           \
		} else {                                                \
			uint64_t outer_ = poll_begin_masked(mask);      \
			mask = NULL;                                    \
			pthread_cleanup_push(poll_end_masked, &outer_); \
			got_ = PASS_ON(call);                           \
			pthread_cleanup_pop(1);                         \
		}                                                       \
		got_;                                                   \
	})

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	return POLL(NEXT(ppoll)(fds, n, limit, mask));
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit,
		       const sigset_t *mask, size_t size)
{
	return POLL(NEXT(__ppoll_chk)(fds, n, limit, mask, size));
}

EXPORT int pselect(int n, fd_set *in, fd_set *out, fd_set *except, const struct timespec *limit,
		   const sigset_t *mask)
{
	return POLL(NEXT(pselect)(n, in, out, except, limit, mask));
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask)
{
	return POLL(NEXT(epoll_pwait)(fd, events, most, ms, mask));
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *limit,
			const sigset_t *mask)
{
	return POLL(NEXT(epoll_pwait2)(fd, events, most, limit, mask));
}
