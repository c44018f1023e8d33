//! Packets: `< [ce] P. 1:1001(1000) ack 1 win 257 <nop,nop,TS val 2 ecr 1>`.

use narrows_packet::Ecn;

use super::{Parsed, Parser};
use crate::lexer::Token;
use crate::script::{Options, Problem, Segment, TcpFlags};

impl Parser {
    /// Reads a packet, beginning with its direction (`<` or `>`).
    pub(super) fn packet(&mut self, inbound: bool) -> Parsed<Segment> {
        self.at += 1;
        let mut ecn = None;
        while self.take('[') {
            ecn = self.ip_field()?.or(ecn);
        }
        let line = self.line();
        match self.peek() {
            Some(Token::Word(word))
                if ["icmp", "udp", "ipv4", "ipv6", "gre", "mpls", "psp", "raw"].contains(&&**word) =>
            {
                return Err(Problem::unsupported(line, format!("{word} packets: the endpoint has only TCP over IPv4")));
            }
            Some(Token::Int(_)) if self.peek_after() == Some(&Token::Sign('>')) => {
                return Err(Problem::unsupported(line, "port numbers: the endpoint has one connection at a time"));
            }
            _ => {}
        }
        let flags = self.flags()?;
        let seq: u64 = self.unsigned()?;
        self.demand(':')?;
        let end: u64 = self.unsigned()?;
        self.demand('(')?;
        let len: u64 = self.unsigned()?;
        self.demand(')')?;
        if seq + len != end {
            let reason = format!("{seq}:{end}({len}): the length is not the difference of the sequence numbers");
            return Err(Problem::syntax(line, reason));
        }
        if len > u64::from(u16::MAX) {
            return Err(Problem::syntax(line, format!("a payload of {len} bytes; accepted: at most 65535")));
        }
        let ack = if self.take_word("ack") { self.unsigned()? } else { 0 };
        let window = if self.take_word("win") { Some(self.unsigned()?) } else { None };
        if self.is_word("urg") {
            return Err(Problem::unsupported(line, "urgent data: the endpoint has none"));
        }
        let options = if self.is_sign('<') && self.opens_options() {
            self.at += 1;
            self.options()?
        } else {
            Some(Options::default())
        };
        if inbound && options.is_none() {
            return Err(Problem::syntax(line, "<...> can only stand in a packet that is sent (>)"));
        }
        Ok(Segment { flags, seq, len, ack, window, ecn, options })
    }

    /// Whether `<` opens options. An inbound packet also begins with `<`, but only after a time.
    fn opens_options(&self) -> bool {
        matches!(self.peek_after(), Some(Token::Word(_) | Token::Ellipsis | Token::Sign('>')))
    }

    /// Reads an IP field in brackets, after `[`.
    fn ip_field(&mut self) -> Parsed<Option<Ecn>> {
        let line = self.line();
        if matches!(self.peek(), Some(Token::Int(_))) {
            // `[1:1001(1000)] icmp unreachable`: the packet that an ICMP message quotes.
            return Err(Problem::unsupported(line, "icmp packets: the endpoint has only TCP over IPv4"));
        }
        let Some(Token::Word(word)) = self.next() else {
            self.at -= 1;
            return self.expected("noecn, ect0, ect1 or ce");
        };
        let ecn = match &*word {
            "noecn" => Ecn::NotEct,
            "ect0" => Ecn::Ect0,
            "ect1" => Ecn::Ect1,
            "ce" => Ecn::Ce,
            _ => {
                let reason = format!("[{word}]: the endpoint has only the ECN field of the IP header");
                return Err(Problem::unsupported(line, reason));
            }
        };
        self.demand(']')?;
        Ok(Some(ecn))
    }

    fn flags(&mut self) -> Parsed<TcpFlags> {
        let line = self.line();
        let mut text = String::new();
        loop {
            match self.peek() {
                Some(Token::Word(word)) => text += word,
                Some(Token::Sign('.')) => text.push('.'),
                Some(Token::Sign('-')) if text.is_empty() => {}
                _ if text.is_empty() => return self.expected("flags, such as S, S., ., P., F. or R"),
                _ => break,
            }
            let dash = self.is_sign('-');
            self.at += 1;
            if dash || matches!(self.tokens.get(self.at), Some(next) if next.spaced) {
                break;
            }
        }
        let mut flags = TcpFlags::default();
        for letter in text.chars() {
            let flag = match letter {
                'S' => &mut flags.syn,
                'F' => &mut flags.fin,
                'R' => &mut flags.rst,
                'P' => &mut flags.psh,
                '.' => &mut flags.ack,
                'E' => &mut flags.ece,
                'W' => &mut flags.cwr,
                'A' | '0'..='9' => {
                    return Err(Problem::unsupported(line, format!("flags '{text}': the endpoint has no AccECN")));
                }
                'U' => return Err(Problem::unsupported(line, "urgent data: the endpoint has none")),
                _ => {
                    let reason = format!("'{text}' are no flags; accepted: the letters S F R P E W and '.'");
                    return Err(Problem::syntax(line, reason));
                }
            };
            *flag = true;
        }
        Ok(flags)
    }

    /// Reads TCP options, after `<`; returns `None` for `...`.
    fn options(&mut self) -> Parsed<Option<Options>> {
        if self.peek() == Some(&Token::Ellipsis) {
            self.at += 1;
            self.demand('>')?;
            return Ok(None);
        }
        let mut options = Options::default();
        while !self.take('>') {
            let line = self.line();
            let Some(Token::Word(name)) = self.next() else {
                self.at -= 1;
                return self.expected("a TCP option, such as mss 1460, sackOK, TS val 1 ecr 2, wscale 7, nop");
            };
            match &*name {
                "nop" | "eol" => {}
                "mss" => options.mss = Some(self.unsigned()?),
                "sackOK" => options.sack_ok = true,
                "wscale" => options.window_scale = Some(self.unsigned()?),
                "TS" => options.timestamps = Some(self.timestamps()?),
                "sack" => {
                    while let Some(Token::Int(_)) = self.peek() {
                        let start = self.unsigned()?;
                        self.demand(':')?;
                        options.sack.push((start, self.unsigned()?));
                    }
                }
                _ => {
                    return Err(Problem::unsupported(
                        line,
                        format!("TCP option '{name}': the endpoint does not have it"),
                    ));
                }
            }
            if !self.is_sign('>') {
                self.demand(',')?;
            }
        }
        Ok(Some(options))
    }

    fn timestamps(&mut self) -> Parsed<(u32, u32)> {
        if !self.take_word("val") {
            return self.expected("'val'");
        }
        let value = self.unsigned()?;
        if !self.take_word("ecr") {
            return self.expected("'ecr'");
        }
        Ok((value, self.unsigned()?))
    }
}
