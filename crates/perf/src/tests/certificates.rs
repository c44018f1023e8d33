//! Certificates that an authority signed, and invalid certificates.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};

use super::super::{Event, Identity, PerfError, Request, Service, Trust, client};
use super::{log, request, service, serving_as, settings};

/// A certificate authority, with its certificate in a file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

fn authority(folder: &Path, name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key");
    let file = folder.join(format!("{name}.pem"));
    std::fs::write(&file, params.self_signed(&key).expect("signed").pem()).expect("written");
    Authority { issuer: Issuer::new(params, key), file }
}

impl Authority {
    /// Issues a certificate for a name, valid in these years.
    fn issue(&self, name: &str, years: (i32, i32)) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("signed");
        let stem = format!("{name}-{}-{}", years.0, years.1);
        let at = |end: &str| self.file.with_file_name(format!("{stem}.{end}"));
        std::fs::write(at("pem"), made.pem()).expect("written");
        std::fs::write(at("key"), key.serialize_pem()).expect("written");
        Identity { certificate: at("pem"), key: at("key") }
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("narrows-perf-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Whether a client accepts a server's certificate; the error is the reason for the refusal.
fn meets(identity: &Identity, trust: Trust, name: &str) -> Result<(), String> {
    let mut answer = None;
    let service = Service { identity: Some(identity.clone()), ..service() };
    let seen = serving_as(&service, "bbr", |address, _| {
        let request = Request { name: name.to_owned(), ..request(trust, false) };
        answer = Some(match client(&settings(address, "bbr"), &request, log().0.as_ref()) {
            Ok(summary) if summary.complete => Ok(()),
            Err(PerfError::Failed { reason, .. }) => Err(reason),
            other => panic!("{other:?}"),
        });
    });
    let answer = answer.expect("a client ran");
    let logged = seen.iter().any(|event| {
        matches!(event, Event::Warning { text } if text.contains("the other end does not accept the certificate"))
    });
    assert_eq!(logged, answer.is_err(), "the server's log: {seen:?}");
    answer
}

/// A client accepts certificates that its authority signed for the server's name. It refuses other
/// certificates, and states the reason and the accepted issuers.
#[test]
#[ignore = "real time: `make test`"]
fn certificates_are_judged_with_reasons() {
    let folder = folder("judged");
    let (own, other) = (authority(&folder, "own"), authority(&folder, "other"));
    let trusted = || Trust::Authorities(own.file.clone());
    let valid = own.issue("perf.example", (2020, 4000));
    assert_eq!(meets(&valid, trusted(), "perf.example"), Ok(()));
    for (identity, trust, name, reason) in [
        (&valid, trusted(), "else.example", "is for perf.example, not for else.example; accepted: --name"),
        (&valid, trusted(), "127.0.0.1", "is for perf.example, not for 127.0.0.1; accepted: --name"),
        (&own.issue("perf.example", (2001, 2002)), trusted(), "perf.example", "expired on 2002-01-01"),
        (&own.issue("perf.example", (3999, 4000)), trusted(), "perf.example", "is valid from 3999-01-01"),
        (&valid, Trust::Authorities(other.file.clone()), "perf.example", "not signed by an authority in "),
        (&valid, Trust::System, "perf.example", "not signed by an authority that this system trusts"),
        (&valid, Trust::Fingerprint("00".repeat(32)), "perf.example", "has the fingerprint "),
    ] {
        let refused = meets(identity, trust, name).expect_err(reason);
        assert!(refused.contains(reason), "{refused}");
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

/// A key that does not match its certificate is a usage error that names both files.
#[test]
fn foreign_keys_are_refused() {
    let folder = folder("keys");
    let own = authority(&folder, "own");
    let (first, second) = (own.issue("a.example", (2020, 4000)), own.issue("b.example", (2020, 4000)));
    let identity = Identity { certificate: first.certificate, key: second.key };
    let service = Service { identity: Some(identity), ..service() };
    let at = settings("127.0.0.1:0".parse().expect("an address"), "bbr");
    let caller: std::sync::Arc<dyn super::Caller> = log().0;
    match super::server(&at, &service, &caller) {
        Err(PerfError::Refused(text)) => {
            assert!(text.contains("a.example") && text.contains("b.example") && text.contains("its own key"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    std::fs::remove_dir_all(folder).expect("removed");
}
