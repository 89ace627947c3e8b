/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unasked.h - descriptors that a process sends to the owner unasked. Whoever closes the last
 * descriptor of a file may wait: a TCP socket lingers for as long as its options say. So the
 * owner's thread must not be the one that drops such a descriptor, neither with the message that
 * carries it nor with the socket in which the message waits. From 6.16 on, the kernel refuses them
 * at the sender.
 */
#ifndef SHARE_UNASKED_H
#define SHARE_UNASKED_H

#include <stdbool.h>
#include <sys/types.h>

/* Have the kernel refuse descriptors that are sent to the connections of this listener. False: this
 * kernel cannot. */
bool rs_unasked_refuse(int listener);
/* Receive one message, without waiting. refused: as above. -EBADMSG: it carries descriptors, and
 * stays where it is. Other errors of recvmsg(). */
ssize_t rs_unasked_receive(int fd, void *buf, size_t size, bool refused);
/* Close a connection or the listener, in a thread of its own unless the kernel refuses descriptors.
 * Does not wait. */
void rs_unasked_close(int fd, bool refused);

#endif
