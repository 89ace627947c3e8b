/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h - requests of asynchronous I/O, in a job of several ranks. Any thread of the program,
 * on any stack unless stated otherwise. */
#ifndef SYSCALL_REQUEST_H
#define SYSCALL_REQUEST_H

#include "wrap.h"

#include <aio.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>

enum operation { READ = LIO_READ, WRITE = LIO_WRITE, FSYNC, FDATASYNC };

/* The requests of one lio_listio() and, while it runs, the call itself. */
struct group {
	uint32_t left;
	uint32_t failed;
	struct sigevent event;
};

/* Store a result in the control block, which the program may reuse or free at once. */
static inline void request_set_result(struct aiocb *cb, ssize_t result, int err)
{
	cb->__return_value = result;
	__atomic_store_n(&cb->__error_code, err, __ATOMIC_RELEASE);
}

/* Return the errno value of the control block; EINPROGRESS: its request is not complete. */
static inline int request_error(const struct aiocb *cb)
{
	return __atomic_load_n(&cb->__error_code, __ATOMIC_ACQUIRE);
}

/* Submit a request, in a group (NULL: none). Return 0, or -1 with errno, also stored in the control
 * block. */
int request_submit(struct aiocb *cb, enum operation what, struct group *g);
/* Cancel the request of cb, or (NULL) all requests of the descriptor, unless it is already being
 * executed. Return as aio_cancel(). Blocks while a result is being written. */
int request_cancel(int fd, struct aiocb *cb);
/* Drop a reference to the group: a request is complete, or its call has returned. The last one
 * sends the notification and frees the group. On the private stack. */
void request_leave(struct group *g);

/* Return a counter that changes whenever a request of this process completes. */
uint32_t request_count(void);
/* Wait until request_count() is no longer `seen`, for at most ns (less than a second). A
 * cancellation point, on the private stack. Return EINTR, or 0, also without a change. */
int request_sleep(uint32_t seen, int64_t ns);

#endif
