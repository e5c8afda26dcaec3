#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| culvert_fuzz_targets::socket_request(data));
