#!/bin/sh
# For tests: the data program on a host whose clock is a day ahead (algo-1) or 400 days behind (any other).
# Containers have their kernel's clock, so a library stands between the program and the C library.
set -eu
cat >/tmp/clock.c <<'CODE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += SKEW;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
CODE
case $SM_CURRENT_HOST in
algo-1) skew=86400 ;;
*) skew=-34560000 ;;
esac
gcc -shared -fPIC -O "-DSKEW=$skew" -o /tmp/clock.so /tmp/clock.c -ldl
LD_PRELOAD=/tmp/clock.so exec python "$(dirname "$0")/data_hosts.py" "$@"
