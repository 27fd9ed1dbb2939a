/* Preloaded into a process: calls that change files below one folder are counted, and one of them is made to fail.

   Built by `faults.py`. A call counts if its path, or the path behind its file descriptor, is in the folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { COUNT, FAIL, FAIL_FROM, SHORT, KILL_BEFORE, KILL_AFTER };

static char folder[PATH_MAX];
static long counted, chosen;
static int mode, code;

void faults_arm(const char *path, long nth, int how, int error) {
    snprintf(folder, sizeof folder, "%s", path);
    counted = 0, chosen = nth, mode = how, code = error;
}

long faults_counted(void) { return counted; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int inside(const char *path) {
    size_t length = strlen(folder);
    return length && path && strncmp(path, folder, length) == 0;
}

static int inside_descriptor(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!*folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return inside(path);
}

enum verdict { GO, ERROR, HALF, LAST };

/* What happens to the next call that counts. */
static enum verdict next(void) {
    long number = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
    if (mode == FAIL_FROM && number >= chosen) { errno = code; return ERROR; }
    if (number != chosen) return GO;
    if (mode == FAIL) { errno = code; return ERROR; }
    if (mode == KILL_BEFORE) kill(getpid(), SIGKILL);
    return mode == SHORT ? HALF : mode == KILL_AFTER ? LAST : GO;
}

#define CALL(applies, type, whole, half)                       \
    enum verdict what = (applies) ? next() : GO;               \
    if (what == ERROR) return (type)-1;                        \
    type result = what == HALF ? (half) : (whole);             \
    if (what == LAST) kill(getpid(), SIGKILL);                 \
    return result

ssize_t write(int fd, const void *data, size_t size) {
    CALL(inside_descriptor(fd), ssize_t, REAL(write)(fd, data, size), REAL(write)(fd, data, size > 1 ? size / 2 : size));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    CALL(inside_descriptor(fd), ssize_t, REAL(pwrite64)(fd, data, size, at),
         REAL(pwrite64)(fd, data, size > 1 ? size / 2 : size, at));
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    CALL(inside_descriptor(fd), ssize_t, REAL(writev)(fd, parts, count), REAL(writev)(fd, parts, 1));
}

/* C streams call the kernel from inside the C library, where nothing can be put in between; faiss and numpy use them.
   They write what they are given whole or fail. */
size_t fwrite(const void *data, size_t size, size_t count, FILE *stream) {
    enum verdict what = inside_descriptor(fileno(stream)) ? next() : GO;
    if (what == ERROR) return 0;
    size_t result = REAL(fwrite)(data, size, count, stream);
    if (what == LAST) kill(getpid(), SIGKILL);
    return result;
}

int fclose(FILE *stream) {
    enum verdict what = stream && inside_descriptor(fileno(stream)) ? next() : GO;
    int error = errno, result = REAL(fclose)(stream);
    if (what == ERROR) { errno = error; return EOF; }
    if (what == LAST) kill(getpid(), SIGKILL);
    return result;
}

int fsync(int fd) { CALL(inside_descriptor(fd), int, REAL(fsync)(fd), REAL(fsync)(fd)); }

int ftruncate64(int fd, off64_t size) {
    CALL(inside_descriptor(fd), int, REAL(ftruncate64)(fd, size), REAL(ftruncate64)(fd, size));
}

int rename(const char *from, const char *to) { CALL(inside(to), int, REAL(rename)(from, to), REAL(rename)(from, to)); }

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    CALL(inside(to), int, REAL(renameat2)(a, from, b, to, flags), REAL(renameat2)(a, from, b, to, flags));
}

int mkdir(const char *path, mode_t bits) { CALL(inside(path), int, REAL(mkdir)(path, bits), REAL(mkdir)(path, bits)); }

int unlink(const char *path) { CALL(inside(path), int, REAL(unlink)(path), REAL(unlink)(path)); }

int rmdir(const char *path) { CALL(inside(path), int, REAL(rmdir)(path), REAL(rmdir)(path)); }

int unlinkat(int fd, const char *path, int flags) {
    CALL(inside_descriptor(fd), int, REAL(unlinkat)(fd, path, flags), REAL(unlinkat)(fd, path, flags));
}

#define OPENS(flags) ((flags) & (O_CREAT | O_WRONLY | O_RDWR))

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t bits = va_arg(rest, mode_t);
    va_end(rest);
    CALL(OPENS(flags) && inside(path), int, REAL(open64)(path, flags, bits), REAL(open64)(path, flags, bits));
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t bits = va_arg(rest, mode_t);
    va_end(rest);
    CALL(OPENS(flags) && inside(path), int, REAL(open)(path, flags, bits), REAL(open)(path, flags, bits));
}
