// SPDX-License-Identifier: BSD-2-Clause
/* signal.c - signals of the owner to processes. */
#include "share/signal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int rs_signal_make(int *ours, int *theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	shutdown(pair[0], SHUT_RD); /* the process can send nothing, descriptors included */
	rs_signal_close(ours);
	*ours = pair[0];
	*theirs = pair[1];
	rs_signal_send(*ours);
	return 0;
}

/* The other end may be full, which means readable, or closed. */
void rs_signal_send(int ours)
{
	if (send(ours, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return;
}

/* Threads that race for a signal may leave two or three; of more, the rest is for the next call. */
void rs_signal_take(int theirs)
{
	char all[16];

	if (recv(theirs, all, sizeof(all), MSG_DONTWAIT) <= 0)
		/* none; or the owner has closed its end, which client_watch_run() sees as well */
		return;
}

void rs_signal_end(int theirs)
{
	shutdown(theirs, SHUT_RDWR);
}

void rs_signal_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
