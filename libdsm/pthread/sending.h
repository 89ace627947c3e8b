/* SPDX-License-Identifier: BSD-2-Clause */
/* sending.h - signals that end the program. */
#ifndef PTHREAD_SENDING_H
#define PTHREAD_SENDING_H

#include "shim.h"

/*
 * Would this signal, to a thread that blocks these, end its process without a report? Any thread;
 * never blocks.
 */
bool signal_ends_unreported(int sig, uint64_t blocked);
/* kill(2) of the program, as itself. Any rank; blocks for a round trip. 0 or an errno value. */
int signal_end_program(int sig);

#endif
