use culvert_session::parse::{
    COOKIE_REPLY_LEN, DATA_HEADER_LEN, DATA_LEN_MIN, DataHeader, INITIATION_LEN, Message,
    RESPONSE_LEN, message_type,
};

/// Any datagram is one of the four messages or none; the fields of one lie in its bytes and, put
/// together, are all of them.
///
/// # Panics
/// If a property does not hold.
pub fn message(data: &[u8]) {
    let Some(message) = Message::parse(data) else {
        return;
    };
    assert!(message_type(data).is_some());
    assert_eq!(data[1..4], [0; 3], "the reserved bytes are zero");
    match message {
        Message::Initiation(initiation) => {
            assert_eq!(data.len(), INITIATION_LEN);
            let macs = initiation.macs;
            let fields = [
                &[1, 0, 0, 0],
                &initiation.sender.to_wire()[..],
                initiation.ephemeral,
                initiation.sealed_static,
                initiation.sealed_timestamp,
                macs.mac1,
                macs.mac2,
            ];
            assert_eq!(fields.concat(), data);
            assert_eq!([macs.before_mac1, macs.mac1].concat(), macs.before_mac2);
            assert_eq!([macs.before_mac2, macs.mac2].concat(), data);
        }
        Message::Response(response) => {
            assert_eq!(data.len(), RESPONSE_LEN);
            let macs = response.macs;
            let fields = [
                &[2, 0, 0, 0],
                &response.sender.to_wire()[..],
                &response.receiver.to_wire(),
                response.ephemeral,
                response.sealed_nothing,
                macs.mac1,
                macs.mac2,
            ];
            assert_eq!(fields.concat(), data);
            assert_eq!([macs.before_mac1, macs.mac1].concat(), macs.before_mac2);
            assert_eq!([macs.before_mac2, macs.mac2].concat(), data);
        }
        Message::CookieReply(reply) => {
            assert_eq!(data.len(), COOKIE_REPLY_LEN);
            let fields = [
                &[3, 0, 0, 0],
                &reply.receiver.to_wire()[..],
                reply.nonce,
                reply.sealed_cookie,
            ];
            assert_eq!(fields.concat(), data);
        }
        Message::Data(header) => {
            assert!(data.len() >= DATA_LEN_MIN);
            assert_eq!(header.to_bytes(), data[..DATA_HEADER_LEN]);
            assert_eq!(DataHeader::parse(data), Some(header));
        }
    }
}
