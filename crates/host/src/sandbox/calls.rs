//! System calls that no part of a service makes, nor any program that it starts (seccomp(2)).
//!
//! A list of refused calls fails open for a call that it leaves out. A list of allowed calls fails
//! at a customer's, with the next version of a C library. This one therefore names the refused
//! calls. The units of the packages filter by what systemd knows to be usual as well.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::barrier::Barrier;

/// The calls that are refused with "Operation not permitted".
const REFUSED: &[i64] = &[
    // The memory and the descriptors of other processes.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Another kernel, or parts of one; the machine as a whole.
    libc::SYS_acct,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Its clock.
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    // Another view of its files, and files without their paths.
    libc::SYS_chroot,
    libc::SYS_fanotify_init,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_umount2,
    // A program that is written nowhere.
    libc::SYS_memfd_create,
    // Namespaces, in which anybody is root towards the kernel.
    libc::SYS_setns,
    libc::SYS_unshare,
    // Large parts of the kernel that a service has no use for.
    libc::SYS_add_key,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
];

/// Those that only this processor has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// The flags with which `clone` is refused: each makes a namespace.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Commands of `bpf` that the tunnel's queues and sockets need (`BPF_MAP_CREATE` and `BPF_PROG_LOAD` of `enum bpf_cmd`).
const ALLOWED_OF_BPF: [u64; 2] = [0, 5];

/// Closes them, for this thread and all that it starts.
pub(super) fn close() -> Barrier {
    let Ok(processor) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Barrier::Open(format!(
            "there is no filter for the processor {}",
            std::env::consts::ARCH
        ));
    };
    match install(processor) {
        Ok(()) => Barrier::Closed,
        Err(error) => Barrier::Open(format!("the kernel takes no filter: {error}")),
    }
}

fn install(processor: TargetArch) -> Result<(), seccompiler::Error> {
    let refused = SeccompFilter::new(
        refused()?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        processor,
    )?;
    // Its flags are in memory, where no filter looks. A C library to which it is unknown takes `clone`.
    let unknown = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
        processor,
    )?;
    for filter in [refused, unknown] {
        seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
    }
    Ok(())
}

/// By number; a call without rules is refused whatever its arguments are.
fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED.iter().chain(REFUSED_HERE) {
        refused.insert(*call, Vec::new());
    }
    let of_bpf = ALLOWED_OF_BPF
        .into_iter()
        .map(|command| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, command))
        .collect::<Result<_, _>>()?;
    refused.insert(libc::SYS_bpf, vec![SeccompRule::new(of_bpf)?]);
    let mut of_clone = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.cast_unsigned());
        let has_it = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, has_it, flag)?;
        of_clone.push(SeccompRule::new(vec![condition])?);
    }
    refused.insert(libc::SYS_clone, of_clone);
    Ok(refused)
}
