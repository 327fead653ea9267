//! Messages that are not what they should be: an error that says what was expected, never a panic.

use arrow_ipc::CompressionType;
use proptest::prelude::*;

use super::*;
use crate::config::Compression;

#[test]
fn a_batch_of_another_type_is_not_read_as_something_else() {
    let batch = one_column(Int64Array::from(vec![1]));
    let other = one_column(Float64Array::from(vec![1.0]));
    let error = encoder(&batch).encode(&other).unwrap_err().to_string();
    assert!(
        error.contains("expected Int64 in column 'c', found Float64"),
        "{error}"
    );
}

#[test]
fn messages_of_metadata_only_are_no_error() {
    let message = FlightData {
        app_metadata: b"done".as_ref().into(),
        ..Default::default()
    };
    assert_eq!(BatchDecoder::new().decode(message).unwrap(), None);
}

#[test]
fn messages_out_of_order_say_what_was_expected() {
    let messages = check(&one_column(Int64Array::from(vec![1])));
    let error = receive(messages[1..].to_vec()).unwrap_err().to_string();
    assert!(
        error.contains("expected a schema before any batch"),
        "{error}"
    );
    let error = receive(vec![messages[0].clone(), messages[0].clone()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected one schema"), "{error}");
}

#[test]
fn a_false_length_of_compressed_bytes_does_not_exhaust_memory() {
    let batch = one_column(Int64Array::from(vec![7; 1000]));
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let mut encoder = BatchEncoder::new(batch.schema(), Some(codec), NO_LIMIT).unwrap();
        let mut messages = send(&mut encoder, std::slice::from_ref(&batch)).unwrap();
        let mut body = messages[1].data_body.to_vec();
        body[..8].copy_from_slice(&(1_i64 << 50).to_le_bytes());
        messages[1].data_body = body.into();
        let error = receive(messages).unwrap_err().to_string();
        assert!(error.contains("expected compressed buffers"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_is_an_error_not_a_panic(header: Vec<u8>, body: Vec<u8>) {
        let schema = encoder(&every_type()).schema_message();
        let mut decoder = BatchDecoder::new();
        decoder.decode(schema).unwrap();
        let data = FlightData { data_header: header.into(), data_body: body.into(), ..Default::default() };
        let _ = decoder.decode(data);
    }

    #[test]
    fn damaged_messages_do_not_panic(
        which: prop::sample::Index,
        flips in proptest::collection::vec(any::<(bool, prop::sample::Index, u8)>(), 1..4),
        codec in prop::sample::select(vec!["none", "lz4", "zstd"]),
    ) {
        let batch = every_type();
        let codec = codec.parse::<Compression>().unwrap().codec();
        let mut encoder = BatchEncoder::new(batch.schema(), codec, NO_LIMIT).unwrap();
        let mut messages = send(&mut encoder, &[batch]).unwrap();
        let message = which.index(messages.len());
        let message = &mut messages[message];
        let mut parts = [message.data_header.to_vec(), message.data_body.to_vec()];
        for (part, place, byte) in flips {
            let part = &mut parts[usize::from(part)];
            if !part.is_empty() {
                let place = place.index(part.len());
                part[place] ^= byte;
            }
        }
        let [header, body] = parts.map(Into::into);
        (message.data_header, message.data_body) = (header, body);
        let _ = receive(messages);
    }
}
