// SPDX-License-Identifier: BSD-2-Clause
/* databases.c - accounts, hosts, services, terminals, interfaces; shared libraries. */
#define _GNU_SOURCE
#include "cases.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <ifaddrs.h>
#include <link.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <pwd.h>
#include <shadow.h>
#include <sys/socket.h>
#include <ttyent.h>
#include <utmpx.h>

/* ---- accounts -------------------------------------------------------------------------------- */

CASE(accounts_by_name, EACH)
{
	struct passwd own, *got = NULL;
	struct group group, *members = NULL;
	char buffer[1024];

	say("%s", getpwnam("root")->pw_dir);
	say("%d", getpwuid(0)->pw_gid);
	say("%d", getpwnam("no-such-account") == NULL);
	say("%d", getgrnam("root")->gr_gid);
	say("%s", getgrgid(0)->gr_name);
	say_error(getpwnam_r("root", &own, buffer, sizeof(buffer), &got));
	say("%s", got ? got->pw_name : "none");
	say_error(getpwuid_r(0, &own, buffer, 1, &got));
	say_error(getgrnam_r("root", &group, buffer, sizeof(buffer), &members));
	say("%d", members && members->gr_gid == 0);
}

CASE(accounts_listed, EACH)
{
	int n = 0, again = 0;

	setpwent();
	while (getpwent())
		n++;
	setpwent();
	while (getpwent())
		again++;
	endpwent();
	say("%d", n > 0 && n == again);
	setgrent();
	say("%d", getgrent() != NULL);
	endgrent();
	say("%s", getspnam("root") ? "root" : error_name(errno));
	say("%d", getlogin() == NULL || getlogin()[0]);
	n = again = 0;
	for (setutxent(); getutxent();)
		n++;
	for (setutxent(); getutxent();)
		again++;
	endutxent();
	say("%d", n == again);
	say("%d", setttyent() == 0 || getttyent() != NULL);
	endttyent();
}

static struct passwd *account;

static void *account_there(void *arg)
{
	account = arg ? getpwuid(0) : getpwnam("root");
	return arg;
}

CASE(account_of_thread, EACH)
{
	apart(account_there, NULL);
	say("%s", account->pw_name);
	apart(account_there, &account);
	say("%s %s", account->pw_name, account->pw_dir);
}

static struct group *group;

static void *group_there(void *arg)
{
	group = arg ? getgrgid(0) : getgrnam("tty");
	return arg;
}

CASE(group_of_thread, EACH)
{
	const struct spwd *shadow = getspnam("root");

	apart(group_there, NULL);
	say("%s %d", group->gr_name, group->gr_mem[0] != NULL);
	apart(group_there, &group);
	say("%s", group->gr_name);
	say("%s", shadow ? shadow->sp_namp : "none");
}

static const char *listed[8];
static char listed_text[512];

/* The next of each list, in memory of the C library, and in memory of the caller. */
static void *list_there(void *arg)
{
	struct passwd own, *got = NULL;
	const struct passwd *p = getpwent();
	const struct group *g = getgrent();

	listed[0] = p ? p->pw_name : "none";
	listed[1] = g ? g->gr_name : "none";
	listed[2] = !getpwent_r(&own, listed_text, sizeof(listed_text), &got) && got == &own
		? own.pw_dir
		: "none";
	return arg;
}

CASE(lists_of_threads, EACH)
{
	int i, n = 0;

	setpwent();
	setgrent();
	for (i = 0; i < 3; i++) {
		list_there(NULL);
		say("%s %s %s", listed[0], listed[1], listed[2]);
		apart(list_there, NULL);
		say("%s %s %s", listed[0], listed[1], listed[2]);
	}
	while (getpwent())
		n++;
	say("%d %d", n > 0, getpwent() == NULL);
	endpwent();
	endgrent();
}

/* ---- hosts and services ---------------------------------------------------------------------- */

CASE(hosts, EACH)
{
	const struct hostent *host = gethostbyname("localhost");
	const struct addrinfo hints = { .ai_family = AF_INET,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	struct in_addr loopback = { htonl(INADDR_LOOPBACK) };
	char name[256], service[32];
	int err;

	say("%s", host ? inet_ntoa(*(struct in_addr *)(void *)host->h_addr_list[0]) : "none");
	err = getaddrinfo("localhost", "80", &hints, &found);
	say("%d %d", err, !err && ntohs(((struct sockaddr_in *)(void *)found->ai_addr)->sin_port));
	if (err)
		return;
	say("%d",
	    getnameinfo(found->ai_addr, found->ai_addrlen, name, sizeof(name), service,
			sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV));
	say("%s %s", name, service);
	freeaddrinfo(found);
	say("%s", gai_strerror(getaddrinfo("no host", NULL, &hints, &found)));
	say("%d", gethostbyaddr(&loopback, sizeof(loopback), AF_INET) != NULL);
	say("%d", gethostbyname("no host") == NULL);
	say("%d", h_errno != 0);
}

CASE(services, EACH)
{
	struct servent *service = getservbyname("ssh", "tcp"), own, *got = NULL;
	const struct protoent *protocol = getprotobyname("udp");
	const struct netent *net = getnetbyname("loopback");
	char buffer[1024];

	say("%d", service ? ntohs((uint16_t)service->s_port) : -1);
	service = getservbyport(htons(22), "tcp");
	say("%s", service ? service->s_name : "none");
	say("%d", getservbyname("no-such-service", "tcp") == NULL);
	say("%d", protocol ? protocol->p_proto : -1);
	say("%s", getprotobynumber(6) ? "tcp" : "none");
	say("%d", net ? (int)net->n_addrtype : -1);
	say_error(getservbyname_r("ssh", "tcp", &own, buffer, sizeof(buffer), &got));
	say("%d", got ? ntohs((uint16_t)got->s_port) : -1);
}

static struct hostent *host;
static struct servent *service;
static struct protoent *protocol;

static void *look_up_there(void *arg)
{
	host = gethostbyname("localhost");
	service = getservbyname("domain", "udp");
	protocol = getprotobyname("udp");
	return arg;
}

CASE(services_of_thread, EACH)
{
	apart(look_up_there, NULL);
	say("%s", host ? inet_ntoa(*(struct in_addr *)(void *)host->h_addr_list[0]) : "none");
	say("%d", host && !host->h_addr_list[1] && host->h_length == 4);
	say("%s %d", service ? service->s_name : "none", service && service->s_aliases[0]);
	say("%s %s", protocol ? protocol->p_name : "none",
	    protocol && protocol->p_aliases[0] ? protocol->p_aliases[0] : "none");
}

CASE(interfaces, EACH)
{
	struct if_nameindex *names = if_nameindex();
	struct ifaddrs *addresses = NULL;
	struct ether_addr ether = { { 1, 2, 3, 4, 5, 6 } };
	char name[IF_NAMESIZE];

	say("%d", names && names[0].if_index > 0);
	if_freenameindex(names);
	say_call(getifaddrs(&addresses));
	say("%d", addresses != NULL);
	freeifaddrs(addresses);
	say("%d", if_nametoindex("lo") > 0);
	say("%s", if_indextoname(if_nametoindex("lo"), name));
	say("%s", ether_ntoa(&ether));
	say("%d", ether_aton("1:2:3:4:5:6")->ether_addr_octet[5]);
}

static char *address;

static void *address_there(void *arg)
{
	struct in_addr loopback = { htonl(INADDR_LOOPBACK) };

	address = inet_ntoa(loopback);
	say("%s", address);
	return arg;
}

CASE(address_of_thread, EACH)
{
	apart(address_there, NULL);
	say("%s", address);
}

/* ---- terminals ------------------------------------------------------------------------------- */

static void *name_terminal(void *fd)
{
	char name[64], *got = ptsname((int)(intptr_t)fd);

	say("%d", got && !strncmp(got, "/dev/pts/", 9));
	say_error(ptsname_r((int)(intptr_t)fd, name, sizeof(name)));
	return NULL;
}

CASE(terminals, EACH)
{
	const int master = posix_openpt(O_RDWR | O_NOCTTY);
	char name[64], path[L_ctermid];
	int slave;

	say_call(master < 0 ? -1 : 0);
	say_call(grantpt(master) | unlockpt(master));
	name_terminal((void *)(intptr_t)master);
	apart(name_terminal, (void *)(intptr_t)master);
	say_error(ptsname_r(master, name, sizeof(name)));
	slave = open(name, O_RDWR | O_NOCTTY);
	say("%d", isatty(slave));
	say("%d", !strcmp(ttyname(slave), name));
	say_error(ttyname_r(slave, path, 1));
	close(slave);
	close(master);
	say("%d", ttyname(0) == NULL);
	say("%s", error_name(errno));
	say("%s", ctermid(path));
	say("%s", ctermid(NULL));
	say("%d", tmpnam(NULL) != NULL);
}

/* ---- shared libraries ------------------------------------------------------------------------ */

static int count_libraries(struct dl_phdr_info *info, size_t size, void *count)
{
	(void)info;
	(void)size;
	++*(int *)count;
	return 0;
}

int posix_exported(void)
{
	return 4;
}

CASE(libraries, EACH)
{
	void *const library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	double (*root)(double);
	Dl_info info;
	int count = 0;

	say("%d", library != NULL);
	*(void **)&root = dlsym(library, "sqrt");
	say("%g", root ? root(16.0) : -1.0);
	say("%d", dladdr((void *)root, &info) != 0 && strstr(info.dli_fname, "libm") != NULL);
	say("%d", dladdr((void *)posix_exported, &info) != 0 && info.dli_fbase != NULL);
	say("%d", dlsym(library, "no_such_function") == NULL);
	say("%d", strstr(dlerror(), "no_such_function") != NULL);
	say("%d", dlerror() == NULL);
	say("%d", dlclose(library));
	say("%d", dlopen("no-such-library.so", RTLD_NOW) == NULL);
	say("%d", dlerror() != NULL);
	say("%d", dl_iterate_phdr(count_libraries, &count));
	say("%d", count > 2);
	say("%d", dlsym(RTLD_DEFAULT, "qsort") != NULL);
	say("%d", dlsym(RTLD_NEXT, "qsort") != NULL);
}

static void *library_there(void *handle)
{
	double (*root)(double);

	*(void **)&root = dlsym(handle, "sqrt");
	say("%g", root ? root(25.0) : -1.0);
	return NULL;
}

CASE(library_of_thread, ALONE)
{
	void *const library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

	apart(library_there, library);
	dlclose(library);
}

/* What does not work with handles of another rank. */
CASE(library_of_main, ALONE)
{
	void *const library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL), *again;
	Lmid_t space = 1;

	say("%d", dlvsym(library, "sqrt", "GLIBC_2.2.5") != NULL);
	say("%d", dlinfo(library, RTLD_DI_LMID, &space));
	say("%d", space == LM_ID_BASE);
	again = dlmopen(LM_ID_BASE, "libm.so.6", RTLD_NOW);
	say("%d", again == library);
	dlclose(library);
}
