//! Random bytes of the operating system.

use crate::clock;
use crate::error::EngineError;
use culvert_session::Entropy;
use std::io;

/// Fresh randomness for each ephemeral key: random bytes of the operating system, and the time.
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fresh(&mut self) -> [u8; 32] {
        let mut fresh = [0; 32];
        getrandom::fill(&mut fresh).expect("getrandom(2) has given the seed of this device before");
        // A clone whose hypervisor gives it no generation ID has the kernel's generator twice, for a
        // minute at most. Its clocks are not secret, but they part at once.
        let clocks = clock::clocks();
        let time = u128::from(clocks.boot.as_nanos()) ^ (clocks.wall.as_nanos() << 64);
        for (byte, of_time) in fresh.iter_mut().zip(time.to_le_bytes()) {
            *byte ^= of_time;
        }
        fresh
    }
}

/// Secret random bytes of the operating system.
pub(crate) fn random_seed() -> Result<[u8; 32], EngineError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| EngineError::System {
        what: "draw random bytes",
        source: io::Error::other(error),
    })?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fresh_differs_each_time() {
        let mut entropy = SystemEntropy;
        assert_ne!(entropy.fresh(), entropy.fresh());
    }
}
