// SPDX-License-Identifier: BSD-2-Clause
/*
 * listen.c - the TCP socket of an owner, and the address at which peers reach it. Runs before the
 * owner's thread starts.
 */
#include "share/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>

#include "share/link.h"
#include "share/why.h"

int rs_listen_in6(const struct sockaddr_storage *from, struct sockaddr_in6 *out)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;

	if (from->ss_family == AF_INET6) {
		memcpy(out, from, sizeof(*out));
		out->sin6_flowinfo = 0;
		return 0;
	}
	if (from->ss_family != AF_INET)
		return -EAFNOSUPPORT;
	*out = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = v4->sin_port };
	out->sin6_addr.s6_addr[10] = out->sin6_addr.s6_addr[11] = 0xff;
	memcpy(out->sin6_addr.s6_addr + 12, &v4->sin_addr, 4);
	return 0;
}

/* The device's IP address, if it has one that other hosts know. */
static bool device_address(const struct rs_owner *o, struct in6_addr *out)
{
	memcpy(out, o->dev.gid.raw, sizeof(*out));
	return o->dev.port_attr.link_layer == IBV_LINK_LAYER_ETHERNET &&
		!IN6_IS_ADDR_LINKLOCAL(out);
}

/* The host part of that address: in the network of the device, if the device has an IP address. */
static void own_host(const struct rs_owner *o, char *host, size_t size)
{
	struct in6_addr at;
	const bool ethernet = device_address(o, &at);
	char ip[INET6_ADDRSTRLEN];

	if (o->config.address)
		snprintf(host, size, strchr(o->config.address, ':') ? "[%s]" : "%s",
			 o->config.address);
	else if (ethernet && IN6_IS_ADDR_V4MAPPED(&at))
		snprintf(host, size, "%s", inet_ntop(AF_INET, at.s6_addr + 12, ip, sizeof(ip)));
	else if (ethernet)
		snprintf(host, size, "[%s]", inet_ntop(AF_INET6, &at, ip, sizeof(ip)));
	else if (gethostname(host, size))
		host[0] = 0;
	host[size - 1] = 0;
}

static void listening(struct rs_owner *o)
{
	char host[sizeof(o->address) - sizeof(":65535")];
	struct sockaddr_in6 at;
	socklen_t size = sizeof(at);

	o->port = getsockname(o->tcp.fd, (struct sockaddr *)&at, &size) ? o->config.port
									: ntohs(at.sin6_port);
	own_host(o, host, sizeof(host));
	snprintf(o->address, sizeof(o->address), "%s:%u", host, o->port);
}

int rs_listen_start(struct rs_owner *o, char *why)
{
	const uint16_t port = o->config.any_port ? 0 : htons(o->config.port);
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = port };
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM },
			*found = NULL;
	const int one = 1, off = 0;
	int err;

	if (o->config.address) {
		struct sockaddr_storage a = { 0 };

		if (getaddrinfo(o->config.address, NULL, &hints, &found)) {
			snprintf(why, RSHARE_WHY_MAX, "%s is no address of this host",
				 o->config.address);
			return -EINVAL;
		}
		memcpy(&a, found->ai_addr, found->ai_addrlen);
		freeaddrinfo(found);
		rs_listen_in6(&a, &at);
		at.sin6_port = port;
	} else if (!device_address(o, &at.sin6_addr)) {
		at.sin6_addr = in6addr_any;
	}
	o->tcp.ready = rs_link_accept;
	o->tcp.fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (o->tcp.fd >= 0) {
		setsockopt(o->tcp.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		setsockopt(o->tcp.fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		if (!bind(o->tcp.fd, (const struct sockaddr *)&at, sizeof(at)) &&
		    !listen(o->tcp.fd, 64)) {
			listening(o);
			err = rs_owner_watch(o, &o->tcp, EPOLLIN);
			return err ? rs_why(why, err, "descriptors of the owner") : 0;
		}
	}
	return rs_why(why, -errno, "TCP port %u cannot be listened at", o->config.port);
}
