use crate::input::Input;
use culvert_aead::{Key, Layout, MAX_RECORDS, Suite, TAG_LEN};

/// Bytes around a batch that nobody may touch.
const MARGIN: usize = 128;
/// The value of the guard bytes.
const CANARY: u8 = 0xC3;

/// Every batch implementation makes and accepts the same bytes as the cipher that works record by
/// record, for any layout. It touches nothing outside of the batch or in the heads.
///
/// # Panics
/// If a property does not hold.
pub fn aead_batch(data: &[u8]) {
    let mut input = Input::new(data);
    let suite = match input.u8() % 2 {
        0 => Suite::Aes256Gcm,
        _ => Suite::ChaCha20Poly1305,
    };
    let key: [u8; 32] = input.array();
    let (batched, portable) = (Key::new(suite, &key), Key::new_portable(suite, &key));
    let head_len = usize::from(input.u8()) % 40;
    let stride = head_len + TAG_LEN + usize::from(input.u16()) % 1600;
    let layout = Layout { head_len, stride };
    let records = usize::from(input.u8()) % MAX_RECORDS + 1;
    let last_len = (head_len + TAG_LEN + usize::from(input.u16()) % 1600).min(stride);
    let batch = MARGIN..MARGIN + (records - 1) * stride + last_len;
    // Below the limit that sessions keep to.
    let first_nonce = input.u64() >> 1;
    let mut damage = Input::new(input.take(10));
    let content = input.rest();

    let mut buffer = vec![CANARY; batch.end + MARGIN];
    for (place, byte) in buffer[batch.clone()].iter_mut().enumerate() {
        *byte = content
            .get(place % content.len().max(1))
            .copied()
            .unwrap_or(0)
            ^ place as u8;
    }
    let plain = buffer.clone();
    let mut expected = buffer.clone();
    batched.seal_batch(first_nonce, &mut buffer[batch.clone()], layout);
    portable.seal_batch(first_nonce, &mut expected[batch.clone()], layout);
    assert!(buffer == expected, "sealed differently");

    // Sealed records open, except the damaged ones.
    damage.damage(&mut buffer[batch.clone()]);
    let nonces: Vec<u64> = (first_nonce..).take(records).collect();
    let sealed = expected;
    let mut expected = buffer.clone();
    let damaged = buffer.clone();
    let opened = batched.open_batch(&nonces, &mut buffer[batch.clone()], layout);
    let authentic = portable.open_batch(&nonces, &mut expected[batch.clone()], layout);
    assert_eq!(opened, authentic);
    assert!(buffer[..batch.start].iter().all(|byte| *byte == CANARY));
    assert!(buffer[batch.end..].iter().all(|byte| *byte == CANARY));
    for index in 0..records {
        let record = layout.record(index, batch.len());
        let record = batch.start + record.start..batch.start + record.end;
        let head = record.start..record.start + head_len;
        assert_eq!(buffer[head.clone()], damaged[head]);
        let sealed_part = record.start + head_len..record.end;
        let is_whole = damaged[sealed_part.clone()] == sealed[sealed_part.clone()];
        assert_eq!(opened.get(index), is_whole);
        if is_whole {
            let content = sealed_part.start..record.end - TAG_LEN;
            assert!(
                buffer[content.clone()] == plain[content],
                "opened differently"
            );
        }
    }
}
