/* A library that a genuine Mesos was linked with and that is not to be had any more: a line STAND_IN(...) follows for
 * each function of it. One that OpenSSL still has, perhaps under another name, is passed on to, arguments untouched.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

static void *today(const char *name) {
    static const char *libraries[] = {"libssl.so.3", "libcrypto.so.3"};
    for (int n = 0; n < 2; n++) {
        void *library = dlopen(libraries[n], RTLD_LAZY | RTLD_LOCAL);
        void *found = library ? dlsym(library, name) : 0;
        if (found) return found;
    }
    return 0;
}

/* What were calls by number and are functions, or nothing, now. */
static long context_control(void *context, int command, long number, void *pointer) {
    static long (*control)(void *, int, long, void *);
    static unsigned long (*set_options)(void *, unsigned long);
    if (!control) control = today("SSL_CTX_ctrl");
    if (!set_options) set_options = today("SSL_CTX_set_options");
    /* SSL_CTRL_OPTIONS: of its bits those that mean what they meant (no tickets, compression, protocols; preference). */
    if (command == 32) return set_options(context, number & 0x1e424000L);
    if (command == 94) return 1; /* SSL_CTRL_SET_ECDH_AUTO: it always is. */
    return control(context, command, number, pointer);
}

/* OpenSSL 1.0 knows no TLS 1.3. */
static void *new_context(const void *method) {
    static void *(*make)(const void *);
    if (!make) make = today("SSL_CTX_new");
    void *context = make(method);
    if (context) context_control(context, 124, 0x0303, 0); /* SSL_CTRL_SET_MAX_PROTO_VERSION: TLS 1.2 */
    return context;
}

#define STAND_IN(NAME, TODAY, ANSWER)                                                    \
    static void *to_##NAME;                                                              \
    static long instead_of_##NAME(void) { return ANSWER; }                               \
    __attribute__((constructor)) static void find_##NAME(void) {                         \
        to_##NAME = today(TODAY);                                                        \
        if (!to_##NAME) to_##NAME = instead_of_##NAME;                                   \
        if (!strcmp(#NAME, "SSL_CTX_ctrl")) to_##NAME = context_control;                 \
        if (!strcmp(#NAME, "SSL_CTX_new")) to_##NAME = new_context;                      \
    }                                                                                    \
    __attribute__((naked)) void NAME(void) { __asm__("jmp *%0" : : "m"(to_##NAME)); }
