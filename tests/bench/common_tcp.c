// SPDX-License-Identifier: BSD-2-Clause
/* common_tcp.c - how the two ends of a benchmark without libdsm find each other. */
#include "common_tcp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define CONNECT_SECONDS 60

int bench_listen(const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)bench_number(port, 1, 65535)) };
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (!bind(l, (struct sockaddr *)&at, sizeof(at)) && !listen(l, 1))
		fd = accept(l, NULL, NULL);
	close(l);
	return fd;
}

int bench_connect(char *where)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *info;
	char *port = strrchr(where, ':');
	int fd, tries;

	errno = EINVAL;
	if (!port)
		return -1;
	*port++ = 0;
	if (getaddrinfo(where, port, &hints, &info))
		return -1;
	for (tries = 0; tries < CONNECT_SECONDS * 10; tries++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && !connect(fd, info->ai_addr, info->ai_addrlen)) {
			freeaddrinfo(info);
			return fd;
		}
		close(fd);
		usleep(100000);
	}
	freeaddrinfo(info);
	return -1;
}
