/* A double of libcuda for tests without a GPU: it has two devices, keeps a context stack per thread as the driver does,
   and writes down every call.  A launch is written down with the words that its parameters point to.  cuda.bindings
   finds it by its soname, so the real bindings are in the test as well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char log_[1 << 20];
static int sizes[256], count, failing;
static __thread intptr_t stack[16];
static __thread int depth;

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int note(const char *format, ...) {
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&one_at_a_time);
    size_t used = strlen(log_);
    vsnprintf(log_ + used, sizeof log_ - used, format, values);
    pthread_mutex_unlock(&one_at_a_time);
    va_end(values);
    return 0;
}

/* What a test asks of the double itself. */
const char *double_log(void) { return log_; }
void double_clear(void) { log_[0] = 0; }
void double_fail(int status) { failing = status; }
void double_expect(const int *bytes, int n) { memcpy(sizes, bytes, n * sizeof *bytes), count = n; }

/* The driver: contexts are 100 + device, so that they are seen in the log. */
int cuInit(unsigned flags) { return note("init\n"); }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = attribute == 75 ? 9 : 0, 0; }
int cuDevicePrimaryCtxRetain(intptr_t *context, int device) { return *context = 100 + device, note("retain %d\n", device); }
int cuDevicePrimaryCtxRetain_v2(intptr_t *context, int device) { return cuDevicePrimaryCtxRetain(context, device); }
int cuCtxPushCurrent_v2(intptr_t context) { return stack[depth++] = context, note("push %ld\n", (long)context); }
int cuCtxPopCurrent_v2(intptr_t *context) { return *context = stack[--depth], note("pop %ld\n", (long)*context); }
int cuCtxGetDevice(int *device) { return depth ? (*device = stack[depth - 1] - 100, 0) : 201; }
int cuLibraryLoadData(intptr_t *library, const char *code, void *a, void *b, unsigned n, void *c, void *d, unsigned m) {
    *library = 7000;
    return note("library %.3s in %ld\n", code + 1, depth ? (long)stack[depth - 1] : 0);
}
int cuLibraryGetKernel(intptr_t *kernel, intptr_t library, const char *name) {
    return *kernel = library + 1, note("kernel %.2s of %ld\n", name, (long)library);
}
int cuKernelGetFunction(intptr_t *function, intptr_t kernel) {
    return *function = kernel + 100, note("function of %ld in %ld\n", (long)kernel, depth ? (long)stack[depth - 1] : 0);
}
int cuFuncGetAttribute(int *value, int attribute, intptr_t function) {
    return *value = 32, note("attribute %d of %ld\n", attribute, (long)function);
}
int cuFuncLoad(intptr_t function) { return note("load %ld\n", (long)function); }
int cuGetErrorString(int status, const char **text) { return *text = "as the test asked", 0; }
int cuLaunchKernel(intptr_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, intptr_t stream, void **parameters, void **extra) {
    char words[4096] = "";
    for (int k = 0; k < count; k++) {
        uint64_t word = 0;
        memcpy(&word, parameters[k], sizes[k]);
        sprintf(words + strlen(words), " %lu", (unsigned long)word);
    }
    note("launch %ld [%u,%u,%u][%u,%u,%u] %u stream %ld in %ld:%s\n", (long)f, gx, gy, gz, bx, by, bz, shared,
         (long)stream, depth ? (long)stack[depth - 1] : 0, words);
    return failing;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    char later[128];
    snprintf(later, sizeof later, "%s_v2", name);
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *function = dlsym(self, later);
    if (!*function) *function = dlsym(self, name);
    const char *missing = getenv("DRIVER_DOUBLE_WITHOUT"); /* a function that came later than the driver */
    if (missing && !strcmp(missing, name)) *function = 0;
    if (status) *status = *function ? 0 : 1;
    return 0;
}
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
