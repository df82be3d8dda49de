"""The profile of containers that ask for none: what programs need, without what only serves to break out. Pure.

It lets through what Docker's default lets through (moby/profiles, seccomp/default_linux.go, as of 2026), and beyond it
what GPU programs use and what gives no more than they have:

* `get_mempolicy`, `mbind`, `set_mempolicy`, `set_mempolicy_home_node`: NCCL, UCX and CUDA's own host buffers are put on
  the NUMA node of their GPU; the cpuset still bounds them. Docker wants CAP_SYS_NICE for it.
* `move_pages`: libnuma and numactl ask with it where pages are; to move those of others needs CAP_SYS_NICE anyhow.
* `pidfd_getfd`, `kcmp`: PyTorch shares memory of expandable segments between its processes by the first. The kernel
  asks for the same leave as for `ptrace`, which Docker lets through since Linux 4.8, and so does this one.

`process_vm_readv`, `process_vm_writev` (NCCL and UCX within a machine) and `ptrace` (cuda-gdb, py-spy and compute-
sanitizer) are let through as in Docker. `perf_event_open` is not: the CPU sampling of Nsight Systems needs a profile
of its own or an unconfined task; its traces of CUDA calls do not.
"""

from __future__ import annotations

from typing import Any

from mesos_gpu.container.spec.seccomp import Profile, read_profile, rules

EPERM, ENOSYS = 1, 38
NEW_NAMESPACES = 0x7E020000
"""clone(2): CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
AF_ALG, AF_VSOCK = 38, 40
"""Sockets of the kernel's cryptography, with a history of holes, and to the machine below a virtual one."""
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux, 32 bits, other names of the kernel (uname26); the last one asks."""

FILES = """
access chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64
fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync
flock fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futimesat getcwd getdents getdents64
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch ioctl lchown lchown32 link linkat _llseek lseek lstat
lstat64 mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat openat2 pread64 preadv preadv2 pwrite64
pwritev pwritev2 read readahead readlink readlinkat readv rename renameat renameat2 rmdir sendfile sendfile64 splice
stat stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range syncfs tee truncate truncate64 umask unlink
unlinkat utime utimensat utimensat_time64 utimes vmsplice write writev listmount statmount
"""
ATTRIBUTES = """
fgetxattr flistxattr fremovexattr fsetxattr getxattr getxattrat lgetxattr listxattr listxattrat llistxattr
lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat
"""
MEMORY = """
brk madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2 mlockall mmap mmap2 mprotect
mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_mrelease remap_file_pages
cachestat get_mempolicy mbind move_pages set_mempolicy set_mempolicy_home_node
"""
PROCESSES = """
capget capset execve execveat exit exit_group fork getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups
getgroups32 getpgid getpgrp getpid getppid getpriority getresgid getresgid32 getresuid getresuid32 getrlimit getrusage
getsid get_thread_area gettid getuid getuid32 ioprio_get ioprio_set kcmp kill landlock_add_rule
landlock_create_ruleset landlock_restrict_self pause pidfd_getfd pidfd_open pidfd_send_signal prctl prlimit64
restart_syscall riscv_hwprobe rseq sched_getaffinity sched_getattr sched_getparam sched_get_priority_max
sched_get_priority_min sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity
sched_setattr sched_setparam sched_setscheduler sched_yield seccomp setfsgid setfsgid32 setfsuid setfsuid32 setgid
setgid32 setgroups setgroups32 setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32
setreuid setreuid32 setrlimit set_robust_list get_robust_list setsid set_thread_area set_tid_address setuid setuid32
sysinfo tgkill times tkill ugetrlimit uname uretprobe vfork wait4 waitid waitpid getcpu getrandom
"""
SIGNALS_AND_TIME = """
adjtimex alarm clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo setitimer
sigaltstack signalfd signalfd4 sigprocmask sigreturn time timer_create timer_delete timer_getoverrun timer_gettime
timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime
timerfd_settime64
"""
WAITING = """
epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2
futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake io_cancel io_destroy io_getevents io_pgetevents
io_pgetevents_time64 io_setup io_submit _newselect pipe pipe2 poll ppoll ppoll_time64 pselect6 pselect6_time64 select
"""
TALKING = """
accept accept4 bind connect getpeername getsockname getsockopt ipc listen mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd recv
recvfrom recvmmsg recvmmsg_time64 recvmsg semctl semget semop semtimedop semtimedop_time64 send sendmmsg sendmsg
sendto setsockopt shmat shmctl shmdt shmget shutdown socketcall socketpair
"""
WITH_SYS_ADMIN = """
bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie lsm_get_self_attr lsm_list_modules
lsm_set_self_attr mount mount_setattr move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname
sethostname setns syslog umount umount2 unshare
"""
BY_CAPABILITY = {
    "CAP_BPF": "bpf",
    "CAP_DAC_READ_SEARCH": "open_by_handle_at",
    "CAP_PERFMON": "perf_event_open",
    "CAP_SYSLOG": "syslog",
    "CAP_SYS_ADMIN": WITH_SYS_ADMIN,
    "CAP_SYS_BOOT": "reboot",
    "CAP_SYS_CHROOT": "chroot",
    "CAP_SYS_MODULE": "delete_module finit_module init_module",
    "CAP_SYS_PACCT": "acct",
    "CAP_SYS_PTRACE": "process_madvise process_vm_readv process_vm_writev ptrace",
    "CAP_SYS_RAWIO": "ioperm iopl",
    "CAP_SYS_TIME": "clock_settime clock_settime64 settimeofday stime",
    "CAP_SYS_TTY_CONFIG": "vhangup",
}
BY_ARCHITECTURE = {
    ("ppc64le",): "swapcontext sync_file_range2",
    ("arm", "arm64"): "arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2",
    ("amd64", "x32"): "arch_prctl",
    ("amd64", "x32", "x86"): "modify_ldt",
    ("s390", "s390x"): "s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr",
    ("riscv64",): "riscv_flush_icache",
}


def _argument(index: int, value: int, operator: str, second: int | None = None) -> list[dict[str, Any]]:
    argument: dict[str, Any] = {"index": index, "value": value, "op": f"SCMP_CMP_{operator}"}
    return [argument if second is None else {**argument, "valueTwo": second}]


def _document() -> dict[str, Any]:
    plain = " ".join((FILES, ATTRIBUTES, MEMORY, PROCESSES, SIGNALS_AND_TIME, WAITING, TALKING))
    no_admin = {"caps": ["CAP_SYS_ADMIN"]}
    s390 = ["s390", "s390x"]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "syscalls": [
            rules(plain),
            rules("process_vm_readv process_vm_writev ptrace", includes={"minKernel": "4.8"}),
            rules("socket", args=_argument(0, AF_ALG, "LT")),
            rules("socket", args=_argument(0, AF_ALG + 1, "EQ")),
            rules("socket", args=_argument(0, AF_VSOCK, "GT")),
            *(rules("personality", args=_argument(0, one, "EQ")) for one in PERSONALITIES),
            *(rules(names, includes={"arches": list(arches)}) for arches, names in BY_ARCHITECTURE.items()),
            *(rules(names, includes={"caps": [capability]}) for capability, names in BY_CAPABILITY.items()),
            rules(
                "clone",
                args=_argument(0, NEW_NAMESPACES, "MASKED_EQ", 0),
                excludes={**no_admin, "arches": s390},
            ),
            # There the flags are the second argument.
            rules(
                "clone",
                args=_argument(1, NEW_NAMESPACES, "MASKED_EQ", 0),
                includes={"arches": s390},
                excludes=no_admin,
            ),
            # Its flags are behind a pointer, where no filter sees them; the C library then uses clone.
            rules("clone3", "SCMP_ACT_ERRNO", errnoRet=ENOSYS, excludes=no_admin),
        ],
    }


DEFAULT: Profile = read_profile(_document(), "of every container")
