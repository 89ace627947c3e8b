// SPDX-License-Identifier: BSD-2-Clause
/* unasked.c - descriptors that a process sends to the owner unasked. */
#include "share/unasked.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS /* Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

bool rs_unasked_refuse(int listener)
{
	const int off = 0;

	return !setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

/*
 * A look at the message refers to its descriptors once more, so dropping that reference closes
 * nothing.
 */
ssize_t rs_unasked_receive(int fd, void *buf, size_t size, bool refused)
{
	struct iovec iov = { buf, size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (!refused && recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT) >= 0 && m.msg_flags & MSG_CTRUNC)
		return -EBADMSG;
	n = recv(fd, buf, size, MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

static void *unasked_close_slowly(void *fd)
{
	close((int)(intptr_t)fd);
	return NULL;
}

/*
 * Without a thread, it stays open until the process ends, which is better than to wait. The other
 * side sees the end all the same.
 */
void rs_unasked_close(int fd, bool refused)
{
	sigset_t all, old;
	pthread_t id;

	if (refused) {
		close(fd);
		return;
	}
	shutdown(fd, SHUT_RDWR);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!pthread_create(&id, NULL, unasked_close_slowly, (void *)(intptr_t)fd))
		pthread_detach(id);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
