// SPDX-License-Identifier: BSD-2-Clause
/* lookups.c - what functions that look something up return belongs to the job, as the memory of statics.c does. */
#include "shim.h"

#include <arpa/inet.h>
#include <pwd.h>

#include "statics.h"

static struct passwd *share_account(const struct passwd *p)
{
	struct passwd *out = statics_account();

	if (!p)
		return NULL;
	*out = *p;
	out->pw_name = string_intern(p->pw_name);
	out->pw_passwd = string_intern(p->pw_passwd);
	out->pw_gecos = string_intern(p->pw_gecos);
	out->pw_dir = string_intern(p->pw_dir);
	out->pw_shell = string_intern(p->pw_shell);
	return out;
}

EXPORT struct passwd *getpwnam(const char *name)
{
	struct passwd *p = NEXT(getpwnam)(name);

	return caller_is_ours(CALLER) ? share_account(p) : p;
}

EXPORT struct passwd *getpwuid(uid_t uid)
{
	struct passwd *p = NEXT(getpwuid)(uid);

	return caller_is_ours(CALLER) ? share_account(p) : p;
}

EXPORT char *inet_ntoa(struct in_addr address)
{
	char *text = NEXT(inet_ntoa)(address);

	return caller_is_ours(CALLER) ? statics_text(text) : text;
}
