//! Text of peers, made safe and understandable for people.

use std::fmt::Write as _;

/// Longest text of a peer that is shown, in characters.
const LONGEST: usize = 300;

/// A peer's text, safe to print: one line of at most 300 characters. Control characters, and characters that change a
/// terminal's direction or lines, are escaped as in Rust (`\u{1b}`).
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    for (place, letter) in text.chars().enumerate() {
        if place == LONGEST {
            out.push('…');
            break;
        }
        if letter.is_control() || changes_layout(letter) {
            let _ = write!(out, "{}", letter.escape_unicode());
        } else {
            out.push(letter);
        }
    }
    out
}

/// The reason for the end of a QUIC connection, with an explanation of noq's limit: at most 1024 pieces of a stream
/// with gaps between them.
pub fn reason_of_quic(reason: String) -> String {
    if reason.contains("too many gaps in stream buffer") {
        return format!(
            "{reason}: the path, or a receiver that gets too little of the processor, has lost packets in more than a \
             thousand places at once; accepted: a lower rate"
        );
    }
    reason
}

/// Whether this character makes a terminal move other characters: marks, embeddings and isolates of directions, and
/// separators of lines and paragraphs (Unicode 15, section 23.2, and annex 9).
const fn changes_layout(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// noq's limit on gaps is explained; other reasons stay unchanged.
    #[test]
    fn gaps_of_quic_are_explained() {
        let reason = reason_of_quic("aborted by peer: too many gaps in stream buffer".to_owned());
        assert!(reason.contains("more than a thousand places") && reason.ends_with("a lower rate"), "{reason}");
        assert_eq!(reason_of_quic("timed out".to_owned()), "timed out");
    }

    /// Escape sequences, line breaks and changes of direction become visible; letters stay.
    #[test]
    fn shown_text_moves_no_cursor() {
        assert_eq!(shown("naïve – 10 µs, 网络"), "naïve – 10 µs, 网络");
        assert_eq!(shown("a\u{1b}[2J\r\nb\u{9b}1m\u{7f}"), r"a\u{1b}[2J\u{d}\u{a}b\u{9b}1m\u{7f}");
        assert_eq!(shown("x\u{202e}gpj.exe\u{2066}\u{2028}"), r"x\u{202e}gpj.exe\u{2066}\u{2028}");
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        let part = |text: &str| shown(text).chars().all(|letter| !letter.is_control() && !changes_layout(letter));
        assert!(all.chars().all(|letter| part(&letter.to_string())));
        assert_eq!(shown(&"x".repeat(9_000)).chars().count(), LONGEST + 1);
    }
}
