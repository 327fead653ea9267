//! Following a query while it runs.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::execute_stream;
use flightpath_metrics::{Progress, progress};
use futures::{StreamExt, TryStreamExt};

// `work` blocks a thread for each partition, and workers must go on giving signs of life: hence the
// many threads.
use crate::fixture::{checked, cluster, plan, register, session, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn progress_grows_and_ends_where_the_profile_is() {
    within(60, async {
        let cluster = cluster(&[Duration::from_micros(200); 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 8000, |value| value);
        let plan = plan(&ctx, "SELECT k % 100, sum(work(v)) FROM t GROUP BY k % 100").await;
        assert!(progress(&plan).is_none());
        let rows = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
        let followed: Vec<Progress> = {
            let progress = progress(&plan).unwrap();
            let (rows, followed) = tokio::join!(rows.try_collect::<Vec<_>>(), progress.collect());
            rows.unwrap();
            followed
        };
        for pair in followed.windows(2) {
            let ((tasks, done), (later_tasks, later_done)) = (pair[0].tasks(), pair[1].tasks());
            assert!(tasks <= later_tasks && done <= later_done, "{pair:?}");
            assert!(!pair[0].ended, "nothing comes after the end");
        }
        assert_eq!(followed[0].tasks().1, 0);
        assert!(followed.iter().any(|progress| progress.tasks() == (4, 0)));
        let last = followed.last().unwrap();
        assert!(last.ended && last.tasks() == (4, 4), "{last:?}");
        let profile = checked(&plan);
        assert_eq!(last.elapsed, profile.duration());
        let rows = last.stages.iter().map(|stage| stage.output_rows);
        let sent = profile
            .exchanged()
            .into_iter()
            .map(|passed| passed.sent_rows);
        assert_eq!(rows.collect::<Vec<_>>(), sent.collect::<Vec<_>>());
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn rows_of_a_task_are_seen_before_it_ends() {
    within(60, async {
        let cluster = cluster(&[Duration::from_millis(1); 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 80_000, |value| value);
        // Workers give a sign of life several times in this time.
        ctx.sql("SET flightpath.worker_timeout = '3s'")
            .await
            .unwrap();
        let plan = plan(&ctx, "SELECT work(v) FROM t").await;
        let mut rows = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
        let mut progress = progress(&plan).unwrap();
        let reading = tokio::spawn(async move { while rows.next().await.is_some() {} });
        let seen = loop {
            let now = progress.next().await.unwrap();
            assert!(!now.ended);
            if now.stages.iter().any(|stage| stage.output_rows > 0) {
                break now;
            }
        };
        assert!(seen.stages[0].done < seen.stages[0].tasks && seen.stages[0].output_bytes > 0);
        reading.abort();
        while let Some(now) = progress.next().await {
            assert!(now.ended || now.stages[0].tasks == 2);
        }
        cluster.stop().await.unwrap();
    })
    .await;
}
