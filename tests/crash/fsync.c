/* Preloaded into a process: while the file named by FAILING_FSYNC exists, nothing can be made durable. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int broken(void) {
    const char *flag = getenv("FAILING_FSYNC");
    return flag != NULL && access(flag, F_OK) == 0;
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (broken()) {
        errno = EIO;
        return -1;
    }
    return real(file);
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (broken()) {
        errno = EIO;
        return -1;
    }
    return real(file);
}
