use super::*;

fn texts(urls: &[Url]) -> Vec<&str> {
    urls.iter().map(Url::as_str).collect()
}

#[test]
fn static_workers_are_normalised_and_have_no_doubles() {
    let workers = StaticWorkers::new([
        "http://B.example:50051/",
        "http://[::1]:50051",
        "http://b.example:50051",
        "https://a.example:443",
        "http://a.example:80/",
    ]);
    assert_eq!(
        texts(&workers.unwrap().workers().unwrap()),
        [
            "http://b.example:50051/",
            "http://[::1]:50051/",
            "https://a.example/",
            "http://a.example/",
        ]
    );
}

#[test]
fn no_workers_are_fine() {
    let none = StaticWorkers::new(Vec::<String>::new()).unwrap();
    assert!(none.workers().unwrap().is_empty());
}

#[test]
fn bad_urls_are_named() {
    let cases = [
        ("localhost:50051", "its scheme is \"localhost\""),
        ("10.0.0.7:50051", "relative URL without a base"),
        ("grpc://a:1", "its scheme is \"grpc\""),
        ("http://a", "it has no port"),
        ("http://[::80]", "it has no port"),
        ("http://:50051", "empty host"),
        ("http://a:70000", "invalid port number"),
        ("http://a:1/path", "it has more than"),
        ("http://a:1/?q", "it has more than"),
        ("http://me:secret@a:1", "it has more than"),
        ("", "relative URL without a base"),
    ];
    for (url, found) in cases {
        let error = StaticWorkers::new([url]).unwrap_err();
        assert!(matches!(error, DataFusionError::Configuration(_)));
        let text = error.to_string();
        assert!(
            text.contains(&format!("bad worker URL {url:?}: ")),
            "{text}"
        );
        assert!(text.contains(found), "{text}");
        assert!(text.contains("expected http://host:port"), "{text}");
    }
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn dns_finds_all_addresses_in_order() {
    let workers = DnsWorkers::new("http://localhost:50051", LONG)
        .await
        .unwrap();
    let found = workers.workers().unwrap();
    let known = ["http://127.0.0.1:50051/", "http://[::1]:50051/"];
    assert!(!found.is_empty());
    assert!(
        found.iter().all(|url| known.contains(&url.as_str())),
        "{found:?}"
    );
    assert!(found.is_sorted_by_key(|url| matches!(url.host(), Some(Host::Ipv6(_)))));
    assert_eq!(workers.name().as_str(), "http://localhost:50051/");
}

#[tokio::test]
async fn dns_takes_addresses_as_they_are() {
    for url in ["http://127.0.0.1:50051/", "https://[::1]:50051/"] {
        let workers = DnsWorkers::new(url, LONG).await.unwrap();
        assert_eq!(texts(&workers.workers().unwrap()), [url]);
    }
}

#[tokio::test]
async fn dns_says_what_it_could_not_find() {
    let error = DnsWorkers::new("http://nowhere.invalid:50051", LONG).await;
    let error = error.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::IoError(_)));
    let text = error.to_string();
    assert!(
        text.contains("looking for workers at http://nowhere.invalid:50051/"),
        "{text}"
    );
    let error = DnsWorkers::new("http://localhost:50051", Duration::ZERO).await;
    assert!(matches!(
        error.unwrap_err(),
        DataFusionError::Configuration(_)
    ));
}

#[tokio::test]
async fn dns_refreshes_until_dropped() {
    let refresh = Duration::from_millis(5);
    let workers = DnsWorkers::new("http://127.0.0.1:50051", refresh)
        .await
        .unwrap();
    workers.snapshot.urls.write().clear();
    let refreshed = async {
        while workers.workers().unwrap().is_empty() {
            sleep(refresh).await;
        }
    };
    timeout(LOOKUP_TIMEOUT, refreshed).await.unwrap();

    let snapshot = Arc::downgrade(&workers.snapshot);
    drop(workers);
    let ended = async {
        while snapshot.upgrade().is_some() {
            sleep(refresh).await;
        }
    };
    timeout(LOOKUP_TIMEOUT, ended).await.unwrap();
}

#[test]
fn the_last_good_answer_survives_failures() {
    let name = parse("http://workers.example:50051").unwrap();
    let first = vec![parse("http://10.0.0.7:50051").unwrap()];
    let second = vec![parse("http://10.0.0.8:50051").unwrap()];
    let snapshot = Snapshot::new(first.clone());
    let mut failing = None;
    snapshot.update(&name, Err(io::Error::other("no answer")), &mut failing);
    assert_eq!(*snapshot.urls.read(), first);
    assert_eq!(failing.as_deref(), Some("no answer"));
    snapshot.update(&name, Err(io::Error::other("refused")), &mut failing);
    assert_eq!(failing.as_deref(), Some("refused"));
    snapshot.update(&name, Ok(second.clone()), &mut failing);
    assert_eq!(*snapshot.urls.read(), second);
    assert_eq!(failing, None);
}
