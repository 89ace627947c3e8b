/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.h - the folder of a user's owners on this host: $XDG_RUNTIME_DIR/rshare, else
 * /run/user/UID/rshare, else /tmp/rshare-UID. Only that user can enter it, so no other can take the
 * name of an owner, or call one. An owner that is killed leaves its socket; the next one that
 * starts removes it.
 */
#ifndef SHARE_PLACE_H
#define SHARE_PLACE_H

#include <sys/un.h>

/* The address of the owner called name, in the folder, which is made if need be. why:
 * RSHARE_WHY_MAX bytes. -EINVAL: not the name of a file. -EPERM: the folder is another user's, or
 * open to others. Errors of mkdir(). */
int rs_place_address(const char *name, struct sockaddr_un *un, char *why);
/* Bind fd to the address and listen. -EADDRINUSE: there is an owner of that name. -EBUSY: another
 * process of the user keeps the folder locked. Errors of open(), bind(), listen(). */
int rs_place_take(int fd, const struct sockaddr_un *un);

#endif
