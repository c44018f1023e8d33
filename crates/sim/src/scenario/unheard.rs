//! What a flow asks of the network, where nothing on its way listens.

use narrows_cc::schemes;

use super::fault::Fault;
use super::schema::Flow;

/// Keys and requests of entry `index` that nobody heeds. `answered` says whether an allocator of this name is on its way.
pub(super) fn notes(
    flow: &Flow,
    index: usize,
    scheme: &schemes::Entry,
    answered: impl Fn(&str) -> bool,
) -> Vec<Fault> {
    let name = scheme.info.name;
    let note = |key: &str, message: String| Fault::new(format!("flows.{index}.{key}"), message);
    let mut notes = Vec::new();
    if let Some(explicit) = scheme.explicit
        && !answered(explicit.allocator())
    {
        let (allocator, then) = (explicit.allocator(), explicit.unanswered());
        notes.push(note("scheme", format!("{name} finds no allocator `{allocator}` on its way and {then}")));
    }
    if !scheme.explicit.is_some_and(narrows_cc::Explicit::negotiates) {
        let stated = [
            ("min_rate", flow.min_rate.is_some()),
            ("max_rate", flow.max_rate.is_some()),
            ("receive_rate", flow.receive_rate.is_some()),
            ("alternatives", flow.alternatives.as_ref().is_some_and(|ways| !ways.is_empty())),
        ];
        let message = |key| format!("{name} negotiates no rate, so `{key}` changes nothing");
        notes.extend(stated.iter().filter(|(_, stated)| *stated).map(|(key, _)| note(key, message(key))));
    }
    notes
}
