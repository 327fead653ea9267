//! Pages of profiles: complete, safe, and no larger than they may be.

#![allow(clippy::unwrap_used)]

use flightpath_metrics::QueryProfile;
use flightpath_metrics::report::Report;
use serde_json::{Value, json};

const ROWS: u64 = 40_000_000;
const BYTES: u64 = 655_360_000;

/// A chain of stages, each read by the next and the last by the coordinator.
fn chain(stages: usize, nodes: usize, tasks: usize) -> Value {
    chain_of(stages, nodes, tasks, 4)
}

fn chain_of(stages: usize, nodes: usize, tasks: usize, partitions: u64) -> Value {
    let mut all = vec![json!({ "id": 0, "tasks": 0, "nodes": [
        { "depth": 0, "name": "DistributedExec", "text": "DistributedExec" },
        { "depth": 1, "parent": 0, "name": "NetworkCoalesceExec",
          "text": format!("NetworkCoalesceExec: stage={stages}, tasks={tasks}"), "reads": stages },
    ] })];
    let mut of_tasks = Vec::new();
    for stage in 1..=stages {
        let plan: Vec<Value> = (0..nodes)
            .map(|node| plan_node(stage, node, nodes))
            .collect();
        all.push(json!({ "id": stage, "tasks": tasks, "nodes": plan,
            "boundary": { "kind": "shuffle", "name": "NetworkShuffleExec" } }));
        for task in 0..tasks {
            let metrics: Vec<Value> = (0..nodes).map(|_| metrics(1, partitions)).collect();
            of_tasks.push(json!({
                "stage": stage, "task": task, "worker": worker(task), "status": "finished",
                "dispatched_ns": 1_000, "reported_ns": 2_000_000, "started_unix_ns": 5,
                "duration_ns": 1_500_000, "output_rows": ROWS, "output_bytes": BYTES,
                "nodes": metrics,
            }));
        }
    }
    let workers: Vec<String> = (0..tasks.min(8)).map(worker).collect();
    json!({
        "format": "flightpath-profile", "version": 1, "status": "finished", "sql": "SELECT 1",
        "query_id": "0190a3c4-7f00-7000-8000-000000000000", "duration_ns": 3_000_000,
        "output_rows": ROWS * tasks as u64, "workers": workers, "stages": all,
        "coordinator": [[], metrics(tasks as u64, partitions)], "tasks": of_tasks,
    })
}

fn worker(task: usize) -> String {
    format!("http://10.0.0.{}:50051", task % 8)
}

fn plan_node(stage: usize, node: usize, nodes: usize) -> Value {
    let name = match (node + 1 == nodes, stage) {
        (true, 1) => "DataSourceExec",
        (true, _) => "NetworkShuffleExec",
        (false, _) => "ProjectionExec",
    };
    let mut plan = json!({ "depth": node, "name": name, "text": format!("{name}: expr=[a@0 as a, b@1 as b]") });
    if node > 0 {
        plan["parent"] = json!(node - 1);
    }
    if name == "NetworkShuffleExec" {
        plan["reads"] = json!(stage - 1);
    }
    plan
}

/// What a node measured that had the rows of so many tasks, in so many partitions.
fn metrics(tasks: u64, partitions: u64) -> Value {
    let of = |partition: u64| {
        let metric = |name: &str, value: u64, of: &str| json!({ "name": name, "kind": "count", "value": value, "partition": partition, "of": of });
        vec![
            metric("output_rows", tasks * ROWS / partitions, "rows"),
            metric("exchange_bytes", tasks * BYTES / partitions, "bytes"),
            metric("output_batches", 7, "rows"),
            json!({ "name": "elapsed_compute", "kind": "time", "ns": 123_456_789 + partition,
                "partition": partition, "of": "timing" }),
            json!({ "name": "exchange_wait", "kind": "time", "ns": 9_876 + partition, "partition": partition }),
        ]
    };
    (0..partitions).flat_map(of).collect()
}

fn read(profile: &Value) -> QueryProfile {
    QueryProfile::from_json(&profile.to_string()).unwrap()
}

fn page(profile: &Value) -> String {
    Report::new(&read(profile)).to_html()
}

/// What the page's script is given.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once(r#"type="application/json">"#).unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

fn assert_every_operator_is_there(profile: &Value, page: &str) {
    for stage in profile["stages"].as_array().unwrap() {
        for node in 0..stage["nodes"].as_array().unwrap().len() {
            let id = format!("op-{}-{node}", stage["id"]);
            assert!(
                page.contains(&format!(r##"href="#{id}""##)),
                "{id} is not drawn"
            );
            assert!(
                page.contains(&format!(r#"id="{id}""#)),
                "{id} is in no table"
            );
        }
    }
}

#[test]
fn every_operator_stage_and_task_is_in_the_page() {
    let profile = chain(3, 4, 5);
    let page = page(&profile);
    assert_every_operator_is_there(&profile, &page);
    for stage in 0..=3 {
        assert!(page.contains(&format!(r#"id="stage-{stage}""#)));
    }
    for (stage, task) in (1..=3).flat_map(|stage| (0..5).map(move |task| (stage, task))) {
        assert!(page.contains(&format!(r##"href="#task-{stage}-{task}""##)));
        assert!(page.contains(&format!(r#"id="task-{stage}-{task}""#)));
    }
}

#[test]
fn markup_in_a_profile_stays_text() {
    let hostile = "</script></title></style><img src=x onerror=alert(1)>\"'&<!--";
    let mut profile = chain(1, 2, 2);
    for field in ["sql", "error", "error_kind", "trace_id", "query_id"] {
        profile[field] = json!(hostile);
    }
    profile["status"] = json!("failed");
    profile["workers"] = json!([hostile]);
    for task in profile["tasks"].as_array_mut().unwrap() {
        task["worker"] = json!(hostile);
        task["error"] = json!(hostile);
        task["status"] = json!("failed");
    }
    for stage in profile["stages"].as_array_mut().unwrap() {
        for node in stage["nodes"].as_array_mut().unwrap() {
            node["name"] = json!(hostile);
            node["text"] = json!(hostile);
        }
    }
    profile["stages"][1]["boundary"] = json!({ "kind": hostile, "name": hostile });
    profile["coordinator"][0] = json!([{ "name": hostile, "kind": "custom",
        "readings": [{ "text": hostile, "value": 1 }, { "text": hostile, "value": 2 }],
        "labels": [[hostile, hostile]] }]);
    let page = page(&profile);

    assert!(
        !page.contains("<img"),
        "markup of the profile is markup of the page"
    );
    assert_eq!(page.matches("</script").count(), 2, "a script ends early");
    assert_eq!(
        page.matches("</title").count(),
        1 + page.matches("<title>").count() - 1
    );
    assert_eq!(page.matches("<!--").count(), 0);
    assert_eq!(data(&page)["stages"][1]["nodes"][0]["name"], hostile);
    assert_eq!(
        data(&page)["stages"][0]["nodes"][0]["metrics"][0]["text"],
        format!("{hostile}, {hostile}")
    );
}

#[test]
fn a_usual_query_is_small_and_tells_of_every_partition() {
    let page = page(&chain(4, 8, 8));
    assert!(page.len() < 300_000, "{} bytes", page.len());
    let data = data(&page);
    assert_eq!(data["detail"], "partitions");
    let rows = &data["stages"][1]["nodes"][0]["metrics"][0];
    assert_eq!(rows["name"], "output_rows");
    assert_eq!(rows["total"], 8 * ROWS);
    assert_eq!(
        rows["by"][7],
        json!([7, [ROWS / 4, ROWS / 4, ROWS / 4, ROWS / 4]])
    );
}

#[test]
fn hundreds_of_operators_and_a_thousand_tasks_fit() {
    let sizes = [(25, 8, 40, 4, "tasks"), (1, 70, 1_000, 1, "totals")];
    for (stages, nodes, tasks, partitions, detail) in sizes {
        let profile = chain_of(stages, nodes, tasks, partitions);
        let page = page(&profile);
        assert!(page.len() < 3_000_000, "{} bytes", page.len());
        assert_every_operator_is_there(&profile, &page);
        assert_eq!(data(&page)["detail"], detail);
        // What is left out of the parts is still in the whole.
        let rows = &data(&page)["stages"][1]["nodes"][0]["metrics"][0];
        assert_eq!(rows["total"], tasks as u64 * ROWS);
    }
}

#[test]
fn the_largest_of_numbers_do_not_end_the_page() {
    let mut profile = chain(2, 3, 2);
    let largest = json!(u64::MAX);
    profile["status"] = json!("cancelled");
    profile["duration_ns"] = largest.clone();
    for task in profile["tasks"].as_array_mut().unwrap() {
        task["status"] = json!("cancelled");
        task["dispatched_ns"] = json!(0);
        for field in ["reported_ns", "duration_ns", "output_rows", "output_bytes"] {
            task[field] = largest.clone();
        }
        let nodes = task["nodes"].as_array_mut().unwrap();
        for metric in nodes
            .iter_mut()
            .flat_map(|node| node.as_array_mut().unwrap())
        {
            let field = if metric["kind"] == "time" {
                "ns"
            } else {
                "value"
            };
            metric[field] = largest.clone();
            metric["partition"] = json!(usize::MAX);
        }
    }
    assert_every_operator_is_there(&profile, &page(&profile));
}

#[test]
fn a_query_that_never_ran_has_a_page() {
    let mut profile = chain(2, 3, 2);
    profile["status"] = json!("planned");
    profile["tasks"] = json!([]);
    profile["workers"] = json!([]);
    profile["coordinator"] = json!([[], []]);
    let page = page(&profile);
    assert_every_operator_is_there(&profile, &page);
    assert!(page.contains("No worker had a task of this query."));
}

#[test]
fn tasks_without_a_report_are_marked_by_a_word() {
    let mut profile = chain(1, 2, 2);
    profile["coordinator"] = json!([[], []]);
    for task in profile["tasks"].as_array_mut().unwrap() {
        task["status"] = json!("missing");
        task["error"] = json!("its worker was lost");
        task.as_object_mut().unwrap().remove("nodes");
        task.as_object_mut().unwrap().remove("reported_ns");
        task["duration_ns"] = json!(0);
    }
    let page = page(&profile);
    assert!(page.contains("missing: its worker was lost"));
    assert!(page.contains(r#"<span class="flag">missing</span>"#));
}

#[test]
fn a_failure_is_told_in_full() {
    let mut profile = chain(1, 2, 2);
    profile["status"] = json!("failed");
    profile["error"] = json!("task 1.0: no space left on device");
    profile["error_kind"] = json!("ResourcesExhausted");
    let page = page(&profile);
    assert!(page.contains("task 1.0: no space left on device</pre>"));
}

#[test]
fn a_stage_with_two_readers_is_drawn_once() {
    let mut profile = chain(2, 3, 2);
    // A join of the first stage with itself: half of its rows go to either side.
    let nodes = profile["stages"][2]["nodes"].as_array_mut().unwrap();
    let mut twin = nodes[2].clone();
    nodes[1]["name"] = json!("HashJoinExec");
    twin["parent"] = json!(1);
    nodes.push(twin);
    for task in profile["tasks"].as_array_mut().unwrap() {
        if task["stage"] == 2 {
            let nodes = task["nodes"].as_array_mut().unwrap();
            for metric in nodes[2].as_array_mut().unwrap() {
                if metric["kind"] == "count" {
                    metric["value"] = json!(metric["value"].as_u64().unwrap() / 2);
                }
            }
            nodes.push(nodes[2].clone());
        }
    }
    let page = page(&profile);
    assert_every_operator_is_there(&profile, &page);
    assert_eq!(
        page.matches(r##"class="stage c1" href="#stage-1""##)
            .count(),
        1
    );
    assert_eq!(page.matches(r#"class="edge net""#).count(), 3);
}

#[test]
fn only_addresses_of_the_web_become_links() {
    let mut profile = chain(1, 1, 1);
    profile["trace_id"] = json!("4bf92f3577b34da6a3ce929d0e0e4736");
    let profile = read(&profile);
    let with = |url: &str| Report::new(&profile).with_trace_url(url).to_html();
    assert!(with("https://traces/1").contains(r#"<a href="https://traces/1""#));
    let other = with("javascript:alert(1)");
    assert!(!other.contains("javascript:") && other.contains("4bf92f3577b34da6a3ce929d0e0e4736"));
}

#[test]
fn the_page_refers_to_nothing_outside() {
    let page = page(&chain(2, 3, 4));
    let (_, body) = page.split_once("</style>").unwrap();
    for attribute in ["src=", "srcset=", "@import", "<iframe", "<object", "<form"] {
        assert!(!body.contains(attribute), "the page has {attribute}");
    }
    for reference in page.split("url(").skip(1) {
        assert!(
            reference.starts_with('#'),
            "a style refers to {}",
            &reference[..40]
        );
    }
    for link in body.split("href=\"").skip(1) {
        assert!(link.starts_with('#'), "a link leads to {}", &link[..40]);
    }
}
