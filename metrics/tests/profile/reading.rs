//! Profiles that were damaged, or come from elsewhere.

use std::time::Duration;

use flightpath_metrics::{ProfileError, QueryProfile};

use crate::fixture::{cluster, profiled, register, session, within};

async fn written() -> String {
    let cluster = cluster(&[Duration::ZERO; 2]).await;
    let ctx = session(&cluster);
    register(&ctx, "t", 4000, |value| value);
    let profile = profiled(&ctx, "SELECT k, count(*) FROM t GROUP BY k").await;
    cluster.stop().await.unwrap();
    profile
        .with_trace_id("0af7651916cd43dd8448eb211c80319c")
        .to_json()
        .unwrap()
}

fn refused(text: &str) -> ProfileError {
    QueryProfile::from_json(text).unwrap_err()
}

fn contradiction(text: &str, was: &str, is: &str) -> String {
    assert!(text.contains(was), "{was} is not in {text}");
    match refused(&text.replacen(was, is, 1)) {
        ProfileError::Inconsistent(faults) => faults.join("\n"),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_cut_off_is_told_as_such_wherever_it_ends() {
    within(60, async {
        let text = written().await;
        let step = text.len() / 97;
        for end in (0..text.len())
            .step_by(step)
            .filter(|end| text.is_char_boundary(*end))
        {
            let error = refused(&text[..end]);
            assert!(matches!(error, ProfileError::CutOff(_)), "{end}: {error}");
        }
        assert!(refused("").to_string().contains("cut off"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_profile_of_this_version_is_told_as_such() {
    within(60, async {
        let text = written().await;
        let newer = text.replacen("\"version\":1", "\"version\":2,\"later\":{}", 1);
        let error = refused(&newer);
        assert!(matches!(error, ProfileError::NewerVersion(2)), "{error}");
        let renamed = newer.replacen("\"status\"", "\"state\"", 1);
        assert!(matches!(refused(&renamed), ProfileError::NewerVersion(2)));
        assert!(matches!(refused("{}"), ProfileError::OtherFormat(None)));
        let other = refused(r#"{"format":"trace","version":1}"#).to_string();
        assert!(other.contains("\"trace\""), "{other}");
        assert!(matches!(refused("[1, 2]"), ProfileError::Malformed(_)));
        assert!(matches!(refused("a profile"), ProfileError::Malformed(_)));
        // A field that is added later does not disturb.
        let more = text.replacen("\"version\":1", "\"version\":1,\"later\":{}", 1);
        QueryProfile::from_json(&more).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_that_contradict_the_rest_are_named() {
    within(60, async {
        let text = written().await;
        let found = contradiction(&text, "\"id\":1,", "\"id\":7,");
        assert!(found.contains("stage 2 reads stage 1"), "{found}");
        let found = contradiction(&text, "\"stage\":1,\"task\":1", "\"stage\":1,\"task\":0");
        assert!(found.contains("each once"), "{found}");
        let found = contradiction(&text, "\"status\":\"finished\"", "\"status\":\"failed\"");
        assert!(found.contains("no error"), "{found}");
        let found = contradiction(
            &text,
            "\"depth\":1,\"parent\":0",
            "\"depth\":1,\"parent\":9",
        );
        assert!(found.contains("its parent"), "{found}");
        let found = contradiction(&text, "\"workers\":[", "\"workers\":[],\"were\":[");
        assert!(found.contains("not among the workers"), "{found}");
        let rows = text.rfind("\"output_rows\":").unwrap();
        let (before, after) = text.split_at(rows);
        let after = after.replacen("\"output_rows\":", "\"output_rows\":0,\"were\":", 1);
        let found = match refused(&format!("{before}{after}")) {
            ProfileError::Inconsistent(faults) => faults.join("\n"),
            other => panic!("{other}"),
        };
        assert!(found.contains("its readers had"), "{found}");
    })
    .await;
}
