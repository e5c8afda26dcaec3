use core::fmt;

/// A Linux error number, as it stands in an answer (there negated: `errno=-22`).
///
/// The protocol: "if there was an error, `errno` is the corresponding integer from errno.h".
/// The numbers are those of every Linux architecture Culvert runs on (the generic table).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(i32);

impl Errno {
    /// EPERM: the process lacks a privilege.
    pub const NOT_PERMITTED: Self = Self(1);
    /// EIO: a device or socket failed.
    pub const INPUT_OUTPUT: Self = Self(5);
    /// E2BIG: the request is longer than [`MAX_REQUEST`](crate::MAX_REQUEST).
    pub const TOO_BIG: Self = Self(7);
    /// ENOMEM: a bound on peers or routes is reached.
    pub const NO_MEMORY: Self = Self(12);
    /// EACCES: the user may not do this.
    pub const ACCESS: Self = Self(13);
    /// ENODEV: the interface is gone.
    pub const NO_DEVICE: Self = Self(19);
    /// EINVAL: a key or value is not known, out of range or in the wrong section.
    pub const INVALID: Self = Self(22);
    /// EPROTO: the text is not this protocol.
    pub const PROTOCOL: Self = Self(71);
    /// EAFNOSUPPORT: the machine has no such address family.
    pub const FAMILY_NOT_SUPPORTED: Self = Self(97);
    /// EADDRINUSE: the listen port is taken.
    pub const ADDRESS_IN_USE: Self = Self(98);

    /// The error number of an operating system error, or [`Self::INPUT_OUTPUT`] when `number` is
    /// not one (zero, negative or above 4095, the largest the kernel returns).
    pub const fn from_raw(number: i32) -> Self {
        if number < 1 || number > 4095 {
            return Self::INPUT_OUTPUT;
        }
        Self(number)
    }

    /// The positive number.
    pub const fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Errno({})", self.0)
    }
}
