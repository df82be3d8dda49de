/* Runs a genuine Mesos master: LIBRARY is the Python extension of PyPI's mesos.scheduler, which holds all of libmesos.
 *
 * A scheduler driver whose master is called "local" starts a master in its own process as soon as it is constructed
 * (src/sched/sched.cpp, MesosSchedulerDriver::initialize). It is never started, so no framework registers. The
 * extension is not imported: of CPython 2.7 it needs only the addresses below. Flags come from the environment
 * (MESOS_..., LIBPROCESS_...). It ends when its standard input does, so it never outlives the tests that started it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

char _Py_NoneStruct[256], PyType_Type[1024];
void *PyExc_Exception, *PyExc_TypeError;

/* std::string of libstdc++ (its C++11 form), and Option<std::string> of stout, as they lie in memory. */
struct string { char *data; size_t length; char local[16]; };
struct option { int none; struct string value; };

typedef void (*constructor_of_info)(void *info);
typedef void (*constructor_of_driver)(void *driver, void *scheduler, void *info, struct string *master);
typedef int (*initialize)(struct option *delegate, struct option *readwrite_realm, struct option *readonly_realm);

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (found) return found;
    fprintf(stderr, "host: %s\n", dlerror());
    exit(2);
}

static struct option some(char *text) {
    struct option made = {0, {text, strlen(text), ""}};
    return made;
}

/* Scheduler::error, the 12th entry of its table of virtual functions: flags that the master does not take. */
static void error(void *scheduler, void *driver, struct string *message) {
    (void)scheduler, (void)driver;
    fprintf(stderr, "host: %.*s\n", (int)message->length, message->data);
    exit(1);
}

int main(int count, char **words) {
    library = count == 2 ? dlopen(words[1], RTLD_LAZY | RTLD_GLOBAL) : NULL;
    if (!library) {
        fprintf(stderr, "host: %s\n", count == 2 ? dlerror() : "usage: host LIBRARY");
        return 2;
    }
    /* Whoever asks for /state means /master/state, as in the program mesos-master (src/master/main.cpp). */
    struct option delegate = some("master");
    struct option readwrite = some("mesos-master-readwrite"), readonly = some("mesos-master-readonly");
    ((initialize)find("_ZN7process10initializeERK6OptionI" STRING "ES9_S9_"))(&delegate, &readwrite, &readonly);

    static void *functions[64];
    for (int n = 0; n < 64; n++) functions[n] = (void *)abort;
    functions[11] = (void *)error;
    void *scheduler = functions;
    void *info = calloc(1, 1 << 16), *driver = calloc(1, 1 << 16);
    struct string local = {"local", 5, ""};
    ((constructor_of_info)find("_ZN5mesos13FrameworkInfoC1Ev"))(info);
    ((constructor_of_driver)find("_ZN5mesos20MesosSchedulerDriverC1EPNS_9SchedulerERKNS_13FrameworkInfoERK" STRING))(
        driver, &scheduler, info, &local);
    char byte;
    while (read(0, &byte, 1) > 0) continue;
    _exit(0);
}
