use super::*;
use culvert_store_sql::{SqlStore, SqliteOptions};
use rcgen::KeyPair;

fn url() -> Portal {
    Portal::new("https://portal.example:8443", None).unwrap()
}

async fn home() -> (tempfile::TempDir, Home, SqlStore) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("portal")).unwrap();
    let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
    (dir, home, store)
}

async fn open(
    files: Option<CertificateFiles>,
    home: &Home,
    store: &SqlStore,
) -> Result<Certificate, PortalError> {
    let given = Given {
        files,
        next: Some(home.state().path().join("next.pem")),
    };
    Certificate::open(given, home, store, vec![url()]).await
}

fn write_files(dir: &Path) -> CertificateFiles {
    let files = CertificateFiles {
        certificate: dir.join("c.pem"),
        key: dir.join("k.pem"),
    };
    write(&files, &made());
    files
}

/// A certificate and its key.
fn made() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["portal.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn write(files: &CertificateFiles, (certificate, key): &(String, String)) {
    std::fs::write(&files.certificate, certificate).unwrap();
    std::fs::write(&files.key, key).unwrap();
}

#[tokio::test]
async fn the_own_certificate_is_made_once_and_tokens_name_it() {
    let (dir, home, store) = home().await;
    let first = open(None, &home, &store).await.unwrap();
    let again = open(None, &home, &store).await.unwrap();
    assert_eq!(first.pin(), again.pin());
    assert_eq!(first.portal().pin, Some(first.pin()));
    let file = dir.path().join("portal").join(OWN_FILE);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn files_that_change_are_read_again_and_bad_ones_change_nothing() {
    let (dir, home, store) = home().await;
    let files = write_files(dir.path());
    let certificate = open(Some(files.clone()), &home, &store).await.unwrap();
    let first = certificate.pin();
    assert_eq!(
        certificate.portal().pin,
        Some(first),
        "no authority vouches for it"
    );
    assert_eq!(
        certificate.reload(&home, &store).await.unwrap(),
        Reloaded::Unchanged
    );

    let paths = [files.certificate.clone(), files.key.clone()];
    let before = FileLook::of(&paths);
    write_files(dir.path());
    assert_ne!(FileLook::of(&paths), before);
    assert_eq!(
        certificate.reload(&home, &store).await.unwrap(),
        Reloaded::ChangedAtOnce
    );
    let second = certificate.pin();
    assert_ne!(first, second);

    assert_eq!(certificate.state().refused, None);
    std::fs::write(&files.certificate, "no certificate").unwrap();
    assert!(certificate.reload(&home, &store).await.is_err());
    assert_eq!(certificate.pin(), second);
    let refused = certificate.state().refused.unwrap();
    assert!(refused.contains("c.pem"), "{refused}");
    write_files(dir.path());
    certificate.reload(&home, &store).await.unwrap();
    assert_eq!(certificate.state().refused, None);
}

#[tokio::test]
async fn a_key_of_another_certificate_is_refused_by_its_name() {
    let (dir, home, store) = home().await;
    let files = write_files(dir.path());
    let other = KeyPair::generate().unwrap();
    std::fs::write(&files.key, other.serialize_pem()).unwrap();
    let error = open(Some(files.clone()), &home, &store).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&files.key.display().to_string()) && text.contains("does not go"),
        "{text}"
    );
    let missing = CertificateFiles {
        key: dir.path().join("none.pem"),
        ..files
    };
    let error = open(Some(missing), &home, &store).await.unwrap_err();
    assert!(error.to_string().contains("none.pem"), "{error}");
}

#[tokio::test]
async fn machines_are_told_of_the_next_certificate_before_it_takes_the_place_of_the_one_in_use() {
    let (dir, home, store) = home().await;
    let next_file = home.state().path().join("next.pem");
    let files = write_files(dir.path());
    for given in [Some(files.clone()), None] {
        let certificate = open(given.clone(), &home, &store).await.unwrap();
        let reload = async || certificate.reload(&home, &store).await.unwrap();
        let first = certificate.pin();
        assert_eq!(certificate.portals().pins, [first]);

        let next = made();
        std::fs::write(&next_file, &next.0).unwrap();
        assert_eq!(reload().await, Reloaded::Next);
        let pin = certificate.next().unwrap();
        assert_eq!(certificate.portals().pins, [first, pin]);
        assert_eq!(certificate.pin(), first);
        assert_eq!(reload().await, Reloaded::Unchanged);

        // The portal's own one is replaced by a start with the file, or by a next one of its own.
        if given.is_some() {
            write(&files, &next);
            assert_eq!(reload().await, Reloaded::Switched);
            assert_eq!(certificate.portals().pins, [pin]);
        }
        std::fs::remove_file(&next_file).unwrap();
        reload().await;
        assert_eq!(certificate.next(), None);
    }
}

#[tokio::test]
async fn a_next_certificate_that_can_not_be_read_changes_nothing_but_itself() {
    let (dir, home, store) = home().await;
    let next_file = home.state().path().join("next.pem");
    let files = write_files(dir.path());
    std::fs::write(&next_file, made().0).unwrap();
    let certificate = open(Some(files), &home, &store).await.unwrap();
    let next = certificate.next();
    assert!(next.is_some());

    std::fs::write(&next_file, "no certificate").unwrap();
    write_files(dir.path());
    let first = certificate.pin();
    let reloaded = certificate.reload(&home, &store).await.unwrap();
    assert_eq!(reloaded, Reloaded::ChangedAtOnce);
    assert_ne!(certificate.pin(), first);
    assert_eq!(certificate.next(), next);
    let state = certificate.state();
    assert_eq!(state.refused, None);
    let refused = state.next_refused.unwrap();
    assert!(refused.contains("next.pem"), "{refused}");

    let other = made();
    std::fs::write(&next_file, &other.0).unwrap();
    let reloaded = certificate.reload(&home, &store).await.unwrap();
    assert_eq!(reloaded, Reloaded::Next);
    assert_eq!(certificate.state().next_refused, None);
}

#[tokio::test]
async fn a_next_certificate_of_a_file_does_not_keep_the_portals_own_one_from_being_switched() {
    let (_dir, home, store) = home().await;
    let next_file = home.state().path().join("next.pem");
    let certificate = open(None, &home, &store).await.unwrap();
    std::fs::write(&next_file, "no certificate").unwrap();
    let prepared = home.prepare_certificate(&store, &url()).await.unwrap();
    let reloaded = certificate.reload(&home, &store).await.unwrap();
    assert_eq!(reloaded, Reloaded::Next);
    assert_eq!(certificate.next(), prepared.next);
    assert!(home.switch_certificate(&store).await.unwrap());
    let reloaded = certificate.reload(&home, &store).await.unwrap();
    assert_eq!(reloaded, Reloaded::Switched);
    assert_eq!(Some(certificate.pin()), prepared.next);
    assert!(certificate.state().next_refused.is_some());
}
